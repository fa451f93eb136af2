//! A small service on fibers that exports its spans by OTLP, OpenTelemetry's protocol.
//!
//! OpenTelemetry's batch processor sends the spans on a thread of its own, by [`client::Client`].

mod client;
mod context;

use std::{error::Error, time::Duration};

use opentelemetry::{
    Context,
    trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
    },
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::trace::SdkTracerProvider;
use ramie::fiber;
use ramie_tracing::trace_context::TraceParent;
use tracing::{Subscriber, info, info_span, instrument};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

pub use context::with_context;

/// How many requests are served at the same time.
pub const REQUESTS: u32 = 8;

/// Exports spans to a collector at `endpoint`, such as `http://127.0.0.1:4318`.
pub fn provider(endpoint: &str) -> Result<SdkTracerProvider, Box<dyn Error>> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client::Client)
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .build()?;
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).build())
}

/// Passes the spans of `tracing` on to OpenTelemetry. Wrap it in a `PerFiber`.
pub fn subscriber(provider: &SdkTracerProvider) -> impl Subscriber + Send + Sync + use<> {
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("ramie-otlp-example"));
    tracing_subscriber::registry().with(layer)
}

/// Serves requests on fibers that take turns on one worker. `caller` is the header `traceparent` of
/// the first one.
pub fn serve_all(caller: TraceParent) {
    fiber::scope(|scope| {
        for number in 0..REQUESTS {
            scope.spawn_local(move || serve(number, (number == 0).then_some(caller)));
        }
    });
}

fn serve(number: u32, caller: Option<TraceParent>) {
    let span = info_span!("request", number);
    if let Some(caller) = caller {
        // Fails only if the span is disabled.
        let _ = span.set_parent(remote_parent(caller));
    }
    let _entered = span.entered();
    fiber::yield_now();
    query(number);
    fiber::scope(|scope| (0..2).for_each(|part| drop(scope.spawn(move || render(number, part)))));
}

#[instrument]
fn query(number: u32) {
    fiber::sleep(Duration::from_millis(1));
    info!("found");
}

#[instrument]
fn render(number: u32, part: u32) {
    fiber::yield_now();
}

/// The parent of a span whose request came from another service.
fn remote_parent(caller: TraceParent) -> Context {
    let flags = if caller.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    Context::new().with_remote_span_context(SpanContext::new(
        TraceId::from(caller.trace_id()),
        SpanId::from(caller.parent_id()),
        flags,
        true,
        TraceState::default(),
    ))
}
