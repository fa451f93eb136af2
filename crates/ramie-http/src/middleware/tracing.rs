//! A span for each request, and W3C trace context.

use std::{
    io::{self, Read},
    sync::Arc,
};

use http::{HeaderName, HeaderValue};
use ramie::scoped_value::ScopedValue;
use ramie_tracing::trace_context::TraceParent;
use tracing::{Span, field::Empty, info_span};

use super::request_id::{RequestId, random_bits};
use crate::{
    body::{Body, BodyKind},
    request::Request,
    response::Response,
    router::{Next, RouteWatch},
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The place of the request that is handled in its trace.
static CONTEXT: ScopedValue<TraceParent> = ScopedValue::new();

/// Middleware that handles each request in a span of the crate [`tracing`](::tracing), named
/// `request`.
///
/// | field | is |
/// |---|---|
/// | `method`, `path` | those of the request |
/// | `route` | the path of the route, such as `/users/{id}`, once the router has found it |
/// | `status` | that of the response |
/// | `request_id` | the [`RequestId`], if the layer [`request_id`](super::request_id()) is around |
/// | `trace_id` | the trace of the request: that of its `traceparent`, or a new one |
/// | `parent_id` | the span of the client, if the request has a valid `traceparent` |
/// | `span_id` | the id of this span in the trace, which [`traceparent_header`] passes on |
///
/// The strands of scopes that a handler opens are in the span, too, and so is a body that is
/// written while it is sent. The span ends with the body.
///
/// Wrap the subscriber in [`ramie_tracing::PerFiber`]; otherwise fibers that share a worker see the
/// spans of one another.
///
/// To export spans by OpenTelemetry, use [`trace_requests_with`], because OpenTelemetry chooses the
/// ids of its spans itself.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get, middleware::{trace_requests, traceparent_header}};
///
/// // A handler that would send this header to another service.
/// let handler = || traceparent_header().map(|(_, value)| value.to_str().unwrap().to_owned());
/// let router =
///     Router::new().route("/", get(move || handler().unwrap_or_default())).layer(trace_requests);
///
/// let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let response = router.call(Request::get("/").with_header("traceparent", caller));
/// let sent = response.into_body().into_bytes(100)?;
/// assert_eq!(sent[..36], caller.as_bytes()[..36]); // the same trace
/// assert_ne!(sent, caller); // by another span
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn trace_requests(request: Request, next: Next<'_>) -> Response {
    traced(request, next, |_, _| {})
}

/// Makes middleware as [`trace_requests`], which calls `prepare` with each new span before it is
/// entered, and with the valid `traceparent` of the request.
///
/// `prepare` may record fields, or set the span's parent for an exporter such as
/// tracing-opentelemetry (`set_parent`).
///
/// # Examples
/// ```
/// use ramie_http::{Router, middleware::trace_requests_with};
///
/// let router: Router = Router::new().layer(trace_requests_with(|span, caller| {
///     let is_sampled = caller.is_some_and(|caller| caller.is_sampled());
///     tracing::debug!(parent: span, is_sampled, "a request");
/// }));
/// ```
pub fn trace_requests_with(
    prepare: impl Fn(&Span, Option<TraceParent>) + Send + Sync + 'static,
) -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
    move |request, next| traced(request, next, &prepare)
}

fn traced(
    mut request: Request,
    next: Next<'_>,
    prepare: impl Fn(&Span, Option<TraceParent>),
) -> Response {
    let header = request.header(TRACEPARENT.as_str());
    let caller = header.and_then(|header| TraceParent::from_bytes(header).ok());
    let own = caller.map_or_else(new_trace, |caller| {
        caller.with_parent_id(random_id()).expect("the id is not zero")
    });
    let span = span_of(&request, caller, own);
    prepare(&span, caller);
    watch_route(&mut request, &span);
    let mut response = span.in_scope(|| CONTEXT.bind(own, || next.call(request)));
    span.record("status", response.status().as_u16());
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = within(span, own, body);
    response
}

fn span_of(request: &Request, caller: Option<TraceParent>, own: TraceParent) -> Span {
    let span = info_span!(
        "request",
        method = request.method().as_str(),
        path = request.path(),
        route = Empty,
        status = Empty,
        request_id = Empty,
        trace_id = format_args!("{:032x}", own.trace_id()),
        span_id = format_args!("{:016x}", own.parent_id()),
        parent_id = Empty,
    );
    if let Some(caller) = caller {
        span.record("parent_id", format_args!("{:016x}", caller.parent_id()));
    }
    if let Some(id) = request.extensions().get::<RequestId>() {
        span.record("request_id", id.as_str());
    }
    span
}

/// Records the route before the handler is called, so that its events have it, too.
fn watch_route(request: &mut Request, span: &Span) {
    let record = |span: &Span, route: &str| _ = span.record("route", route);
    match request.route() {
        Some(route) => record(span, route),
        None => {
            let span = span.clone();
            let watch = RouteWatch::new(move |route| record(&span, route));
            request.extensions_mut().insert(watch);
        }
    }
}

fn new_trace() -> TraceParent {
    let trace_id = random_bits() | 1;
    let new = TraceParent::new(trace_id, random_id()).expect("the ids are not zero");
    // Nothing samples here, so the next service should record what it can.
    new.with_sampled(true).with_random(true)
}

/// A random number that is not zero.
fn random_id() -> u64 {
    random_bits() as u64 | 1
}

/// The same body, which is made in the span.
fn within(span: Span, context: TraceParent, body: Body) -> Body {
    match body.0 {
        BodyKind::Write(write) => Body(BodyKind::Write(Box::new(move |out| {
            span.in_scope(|| CONTEXT.bind(context, || write(out)))
        }))),
        BodyKind::Read { reader, length } => {
            let reader = InSpan { reader, span, context: Arc::new(context) };
            Body(BodyKind::Read { reader: Box::new(reader), length })
        }
        kind => Body(kind),
    }
}

/// A reader that reads in a span.
struct InSpan {
    reader: Box<dyn Read + Send>,
    span: Span,
    context: Arc<TraceParent>,
}

impl Read for InSpan {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let InSpan { reader, span, context } = self;
        span.in_scope(|| CONTEXT.bind_shared(Arc::clone(context), || reader.read(buf)))
    }
}

/// The header by which a request to another service belongs to the trace of the request that is
/// handled: its parent is the span of [`trace_requests`]. `None` outside of that, and on detached
/// strands.
///
/// # Blocking
/// Never.
pub fn traceparent_header() -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_str(&CONTEXT.get()?.to_string());
    Some((TRACEPARENT, value.expect("hexadecimal digits and hyphens")))
}
