//! The spans that arrive at a collector have the right parents, although the fibers took turns.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value, trace::v1::Span,
};
use prost::Message;
use ramie::Runtime;
use ramie_otlp_example::{REQUESTS, provider, serve_all, subscriber};
use ramie_tracing::{PerFiber, trace_context::TraceParent, with_default};
use tracing::Dispatch;

/// Reads one export, answers it, and decodes it.
fn receive(stream: TcpStream) -> Vec<Span> {
    let mut reader = BufReader::new(&stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).expect("a request line");
    assert!(line.starts_with("POST /v1/traces "), "{line}");
    while line.trim_end() != "" {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        assert!(!lower.starts_with("content-type:") || lower.contains("application/x-protobuf"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the whole body");
    let answer = b"HTTP/1.0 200 OK\r\ncontent-type: application/x-protobuf\r\n\r\n";
    (&stream).write_all(answer).expect("the exporter reads the answer");
    let export = ExportTraceServiceRequest::decode(&*body).expect("protobuf");
    let scopes = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

/// A collector on this machine: its endpoint, and the spans that it receives.
fn collector() -> (String, mpsc::Receiver<Vec<Span>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, spans) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if sender.send(receive(stream.expect("a connection"))).is_err() {
                return;
            }
        }
    });
    (endpoint, spans)
}

fn caller() -> TraceParent {
    TraceParent::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)
        .expect("not zero")
        .with_sampled(true)
}

/// Serves all requests on `workers`; returns the spans that were exported.
fn spans_of(workers: usize, is_per_fiber: bool) -> Vec<Span> {
    let (endpoint, received) = collector();
    let provider = provider(&endpoint).expect("an exporter");
    let subscriber = subscriber(&provider);
    let dispatch = match is_per_fiber {
        true => Dispatch::new(PerFiber::new(subscriber)),
        false => Dispatch::new(subscriber),
    };
    let runtime = Runtime::builder().workers(workers).build().expect("a runtime");
    with_default(&dispatch, || runtime.run(|| serve_all(caller())));
    provider.shutdown().expect("the exporter sends the rest");
    let mut spans = Vec::new();
    while spans.len() < 4 * REQUESTS as usize {
        spans.extend(received.recv_timeout(Duration::from_secs(60)).expect("more spans"));
    }
    spans
}

/// The request to which a span belongs. `#[instrument]` records a number as text.
fn number_of(span: &Span) -> String {
    let number = span.attributes.iter().find(|attribute| attribute.key == "number");
    match number.and_then(|number| number.value.clone()).and_then(|value| value.value) {
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::StringValue(number)) => number,
        other => panic!("the span {} has the number {other:?}", span.name),
    }
}

fn check_parents(spans: &[Span]) {
    assert_eq!(spans.len(), 4 * REQUESTS as usize);
    let by_id: HashMap<_, _> = spans.iter().map(|span| (&span.span_id, span)).collect();
    for span in spans {
        let number = number_of(span);
        if span.name == "request" {
            let is_called = number == "0";
            let id = caller().parent_id().to_be_bytes();
            let parent = if is_called { &id[..] } else { &[] };
            assert_eq!(span.parent_span_id, parent, "a parent of request {number}");
            let is_callers = span.trace_id == caller().trace_id().to_be_bytes();
            assert_eq!(is_callers, is_called, "the trace of request {number}");
            continue;
        }
        let parent = by_id.get(&span.parent_span_id).expect("the parent was exported");
        let (name, of) = (&span.name, number_of(parent));
        assert_eq!(parent.name, "request", "the parent of {name} in request {number}");
        assert_eq!(of, number, "the parent of {name} belongs to another request");
        assert_eq!(span.trace_id, parent.trace_id, "the trace of {name} in request {number}");
    }
}

#[test]
fn spans_of_fibers_that_take_turns_have_their_parents() {
    check_parents(&spans_of(1, true));
}

#[test]
fn spans_of_fibers_on_several_workers_have_their_parents() {
    check_parents(&spans_of(2, true));
}

/// The canary of the lane: without `PerFiber`, fibers see the spans of others.
#[test]
#[ignore = "fails on purpose"]
fn without_per_fiber_the_parents_are_mixed() {
    check_parents(&spans_of(1, false));
}
