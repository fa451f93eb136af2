//! One request and its response, on a fiber of its own.

use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{CONTENT_LENGTH, COOKIE, HOST},
};
use hyper::body::{Body as _, Incoming};
use ramie::{
    cancel::{self, CancelHandle},
    future::OneshotFuture,
    sync::oneshot,
};

use super::{
    body::{Frames, PIECE, RequestBody, ResponseBody},
    fibers::ScopedFibers,
    shared::{Running, Shared, Unsent},
};
use crate::{
    body::{Body, BodyKind},
    connection::Upgrade,
    h1::authority,
    request::Request,
    response::{IntoResponse, Response},
};

/// The future of a response. Dropping it cancels the handler.
pub(super) struct Exchange {
    response: OneshotFuture<http::Response<ResponseBody>>,
    handler: Option<CancelOnDrop>,
    unsent: Option<Rc<Unsent>>,
}

/// Cancels a handler whose stream the client has reset.
pub(super) struct CancelOnDrop(Option<CancelHandle>);

impl CancelOnDrop {
    /// The handler has ended by itself.
    pub(super) fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(handler) = &self.0 {
            handler.cancel_because("the client has reset the stream");
        }
    }
}

impl Exchange {
    /// Starts the handler of a request.
    pub(super) fn begin<'scope>(
        shared: &Rc<Shared>,
        fibers: ScopedFibers<'scope, '_>,
        request: http::Request<Incoming>,
    ) -> Self {
        let unsent = Some(shared.begin());
        let scope = cancel::scope(|scope| scope.handle());
        let (sender, receiver) = oneshot::channel();
        let handler = Some(CancelOnDrop(Some(scope.clone())));
        match shared.run() {
            None => _ = sender.send(only(StatusCode::SERVICE_UNAVAILABLE)),
            Some(running) => {
                let shared = Rc::clone(shared);
                let call = Call { shared, scope, sender, _running: running };
                // If the spawn fails, the sender is dropped: hyper then resets the stream.
                fibers.spawn(move || call.run(request));
            }
        }
        Exchange { response: receiver.into_future(), handler, unsent }
    }
}

impl Future for Exchange {
    type Output = Result<http::Response<ResponseBody>, io::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.response).poll(context).map(|received| {
            let mut response = received.map_err(io::Error::other)?;
            if let Some(handler) = self.handler.take() {
                response.body_mut().cancel_if_dropped(handler);
            }
            response.body_mut().unsent = self.unsent.take();
            Ok(response)
        })
    }
}

/// The call of a handler, on its fiber.
struct Call {
    shared: Rc<Shared>,
    scope: CancelHandle,
    sender: oneshot::Sender<http::Response<ResponseBody>>,
    _running: Running,
}

impl Call {
    fn run(self, request: http::Request<Incoming>) {
        let limits = self.shared.limits();
        let is_head = request.method() == Method::HEAD;
        let response = match self.received(request) {
            Ok(request) => self.call_handler(request),
            Err(status) => status.into_response(),
        };
        let (mut parts, body) = response.into_parts();
        let length = body.length();
        let has_no_body = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
        let kind = match body.0 {
            _ if has_no_body.contains(&parts.status) => BodyKind::Empty,
            kind if is_head => {
                // A body that is empty says nothing of that of a GET.
                if let Some(length) = length.filter(|length| *length > 0) {
                    parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
                }
                drop(kind);
                BodyKind::Empty
            }
            kind => kind,
        };
        let (frames, body) = match kind {
            BodyKind::Empty => (None, ResponseBody::full(Bytes::new())),
            BodyKind::Full(bytes) if bytes.len() <= PIECE => (None, ResponseBody::full(bytes)),
            kind => {
                let (frames, body) = Frames::new(length, limits.write_timeout);
                (Some((frames, kind)), body)
            }
        };
        let sent = self.sender.send(http::Response::from_parts(parts, body));
        if let Some((frames, kind)) = frames
            && sent.is_ok()
        {
            self.scope.run(|| frames.write(kind, length));
        }
    }

    /// The request as handlers know it.
    fn received(&self, request: http::Request<Incoming>) -> Result<Request, StatusCode> {
        let limits = self.shared.limits();
        if request.headers().len() > limits.fields {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let mut request = request.map(|body| match body.is_end_stream() {
            true => Body::empty(),
            false => Body(BodyKind::Arriving(Box::new(RequestBody::new(body, limits)))),
        });
        check_host(&mut request)?;
        join_cookies(request.headers_mut());
        let mut request = Request::from(request);
        self.shared.client.describe(request.parts_mut());
        Ok(request)
    }

    fn call_handler(&self, request: Request) -> Response {
        let service = &self.shared.service;
        let call = || {
            let timed = || service.router.call(request);
            self.scope.run(|| cancel::with_timeout(service.limits.request_timeout, timed).ok())
        };
        let mut response = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Some(response)) => response,
            // What the handler has returned may lack what it waited for.
            Ok(None) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        };
        let wants_upgrade = response.extensions_mut().remove::<Upgrade>().is_some();
        if wants_upgrade || response.status().is_informational() {
            log::error!("a handler wanted to change the protocol of a request of HTTP/2");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        response
    }
}

/// Clients of HTTP/2 may send the cookies apart, whereas handlers know one field (RFC 9113,
/// section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies = headers.get_all(COOKIE);
    if cookies.iter().nth(1).is_some() {
        let cookies: Vec<_> = cookies.iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
            headers.insert(COOKIE, joined);
        }
    }
}

fn only(status: StatusCode) -> http::Response<ResponseBody> {
    let mut response = http::Response::new(ResponseBody::full(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// The one host of a request: `:authority`, which Host may repeat and must not contradict (RFC
/// 9113, section 8.3.1). So handlers see the host by which a proxy before the server has routed.
fn check_host(request: &mut http::Request<Body>) -> Result<(), StatusCode> {
    if request.method() == Method::CONNECT {
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let mut hosts = request.headers().get_all(HOST).into_iter().map(HeaderValue::as_bytes);
    let (host, other) = (hosts.next(), hosts.next());
    let named = match (&authority, host) {
        _ if other.is_some() => return Err(StatusCode::BAD_REQUEST),
        (Some(authority), Some(host)) if !host.eq_ignore_ascii_case(authority.as_bytes()) => {
            return Err(StatusCode::BAD_REQUEST);
        }
        (Some(authority), _) => authority.as_bytes(),
        (None, Some(host)) => host,
        (None, None) => return Err(StatusCode::BAD_REQUEST),
    };
    if !authority::is_valid(named) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let host = HeaderValue::from_bytes(named).map_err(|_| StatusCode::BAD_REQUEST)?;
    request.headers_mut().insert(HOST, host);
    Ok(())
}
