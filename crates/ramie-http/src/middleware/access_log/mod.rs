//! A line for each request.

mod line;
mod queue;

use std::{fmt, io::Write, sync::Arc};

use http::{HeaderValue, StatusCode};
use ramie::time::{Instant, SystemTime};

use self::{
    line::{LineFormat, LoggedRequest, LoggedResponse},
    queue::LineQueue,
};
use super::RequestId;
use crate::{
    connection::TIME_IS_UP,
    failed::{self, REQUEST_ID},
    request::Request,
    response::Response,
    router::Next,
};

/// How many bytes of lines may wait for the writer.
const MOST_QUEUED: usize = 1 << 20;

/// Writes a line for each request.
///
/// | part | in the common log format | in JSON |
/// |---|---|---|
/// | the address of the client | first; without its port | `peer`; with its port |
/// | when the request arrived, in UTC | in brackets | `time`, as RFC 3339 writes it |
/// | method, target and version | in quotes | `method`, `target`, `version` |
/// | the status | behind the quotes | `status` |
/// | the bytes of the body | behind the status | `bytes` |
/// | the [`RequestId`] | behind the bytes | `id` |
/// | the microseconds that the handler took | at the end | `duration_us` |
///
/// A part that is not known is `-`, in JSON `null`: the address of a client of a Unix socket, the
/// id without the layer [`request_id`](super::request_id), the bytes of a body that is written
/// while it is sent. Control characters, quotes and all that is not ASCII are escaped, so a client
/// cannot forge lines.
///
/// A line is written when the handler returns, before its response is sent. A handler that panics
/// is logged with 500, one whose time is up (`Limits::request_timeout`) with 503, and one whose
/// client has closed the connection or reset the stream with 499, though nothing is sent then, as
/// is one that the end of a stop has cut off ([`Server::grace`](crate::Server::grace)). The bytes
/// of all these are 0. But a handler whose read of the body fails, because the client has left, is
/// logged with the response that it returns. A request that the server refuses before the router
/// gets it, such as one that is malformed (400), late (408) or too large in its head (414, 431),
/// has no line.
///
/// # Blocking
/// A request never waits for the writer: a fiber writes the lines, several at once, and ends when
/// none is left. While 1 MiB of lines waits, further ones are lost, and so are those that the
/// writer returns an error for; [`lost`](Self::lost) counts them. `run` returns when the lines are
/// written.
///
/// The writer is called on a fiber, so use one that parks fibers, such as
/// [`ramie::io::stdout`](ramie::io::stdout()) or [`ramie::fs::File`].
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get, middleware::{AccessLog, request_id}};
///
/// let log = AccessLog::json(ramie::io::stdout());
/// let router = Router::new()
///     .route("/", get(|| "hello"))
///     .layer(request_id)
///     .layer(log.layer());
/// ramie::run(|| router.call(Request::get("/")));
/// assert_eq!(log.lost(), 0);
/// ```
#[derive(Clone)]
pub struct AccessLog {
    format: LineFormat,
    queue: Arc<LineQueue>,
}

impl AccessLog {
    /// Writes lines in the common log format, each with the request's id and duration at its end.
    pub fn common(writer: impl Write + Send + 'static) -> Self {
        AccessLog::new(LineFormat::Common, writer)
    }

    /// Writes lines that are JSON objects.
    pub fn json(writer: impl Write + Send + 'static) -> Self {
        AccessLog::new(LineFormat::Json, writer)
    }

    fn new(format: LineFormat, writer: impl Write + Send + 'static) -> Self {
        AccessLog { format, queue: Arc::new(LineQueue::new(Box::new(writer), MOST_QUEUED)) }
    }

    /// Makes the middleware, for [`Router::layer`](crate::Router::layer). Layers of several routers
    /// may write to the same log.
    pub fn layer(&self) -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
        let log = self.clone();
        move |request, next| log.call(request, next)
    }

    /// How many lines are lost, because the writer was slow or has returned errors.
    pub fn lost(&self) -> u64 {
        self.queue.lost()
    }

    fn call(&self, request: Request, next: Next<'_>) -> Response {
        failed::forget();
        let begin = Instant::now();
        let mut pending = PendingLine { log: self, begin, request: Some(logged(&request)) };
        let response = next.call(request);
        if let Some(mut logged) = pending.request.take() {
            let of_inner_layer = || text(response.headers().get(REQUEST_ID)?);
            logged.id = logged.id.or_else(of_inner_layer);
            let (status, length) = match status_instead() {
                Some(status) => (status, Some(0)),
                None => (response.status(), response.body().length()),
            };
            self.write(&logged, begin, status, length);
        }
        response
    }

    fn write(
        &self,
        request: &LoggedRequest,
        begin: Instant,
        status: StatusCode,
        length: Option<u64>,
    ) {
        // The connection sends no body with these.
        let is_bodiless = request.method == http::Method::HEAD
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let length = if is_bodiless { Some(0) } else { length };
        let response = LoggedResponse { status, length, duration: begin.elapsed() };
        self.queue.push(self.format.line(request, &response).as_bytes());
    }
}

fn logged(request: &Request) -> LoggedRequest {
    let mut target = request.path().to_owned();
    if let Some(query) = request.query() {
        target.push('?');
        target.push_str(query);
    }
    LoggedRequest {
        time: SystemTime::now().into(),
        peer: request.peer_addr(),
        id: request.extensions().get().map(|id: &RequestId| id.as_str().to_owned()),
        method: request.method().clone(),
        target,
        version: request.version(),
    }
}

fn text(id: &HeaderValue) -> Option<String> {
    id.to_str().ok().map(str::to_owned)
}

/// The status of the response without a body that counts instead of the handler's, because the
/// server has cancelled the handler.
fn status_instead() -> Option<StatusCode> {
    match ramie::cancel::check_cancelled() {
        Ok(()) => None,
        Err(cause) if cause.reason() == TIME_IS_UP => Some(StatusCode::SERVICE_UNAVAILABLE),
        // A limit around the router, of which the server knows nothing.
        Err(cause) if cause.is_deadline() => None,
        Err(_) => StatusCode::from_u16(499).ok(),
    }
}

/// Writes the line of a handler that panics.
struct PendingLine<'a> {
    log: &'a AccessLog,
    begin: Instant,
    request: Option<LoggedRequest>,
}

impl Drop for PendingLine<'_> {
    fn drop(&mut self) {
        if let Some(mut request) = self.request.take() {
            request.id = request.id.or_else(|| text(&failed::left()?));
            self.log.write(&request, self.begin, StatusCode::INTERNAL_SERVER_ERROR, Some(0));
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog")
            .field("format", &self.format)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
