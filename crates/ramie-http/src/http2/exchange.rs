//! One request and its response, on a fiber of its own.

use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, StatusCode, header::CONTENT_LENGTH};
use hyper::{
    body::{Body as _, Incoming},
    upgrade::OnUpgrade,
};
use ramie::{
    cancel::{self, CancelHandle},
    future::{OneshotFuture, block_on_or_cancelled},
    sync::oneshot,
};

use super::{
    body::{Frames, PIECE, RequestBody, ResponseBody},
    fibers::ScopedFibers,
    handler_time::HandlerTime,
    heads,
    shared::{Running, Shared, Unsent},
    tunnel::Tunnel,
};
use crate::{
    body::{Body, BodyKind},
    connection::{Upgrade, Upgraded},
    failed,
    io::Input,
    origin::Origin,
    request::Request,
    response::{IntoResponse, Response},
};

/// The future of a response. Dropping it cancels the handler.
pub(super) struct Exchange {
    response: OneshotFuture<http::Response<ResponseBody>>,
    handler: Option<CancelOnDrop>,
    unsent: Option<Rc<Unsent>>,
}

/// Cancels a handler whose response nobody waits for any more.
pub(super) struct CancelOnDrop {
    /// None: the handler has ended by itself.
    handler: Option<CancelHandle>,
    /// The scope of the connection.
    until_end: CancelHandle,
}

impl CancelOnDrop {
    pub(super) fn forget(mut self) {
        self.handler = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(handler) = &self.handler else { return };
        match self.until_end.run(cancel::check_cancelled) {
            Err(of_connection) => handler.cancel_because(of_connection.reason().to_owned()),
            Ok(()) => handler.cancel_because("the client has reset the stream or gone away"),
        };
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
        let until_end = shared.until_end.clone();
        let handler = Some(CancelOnDrop { handler: Some(scope.clone()), until_end });
        match shared.run() {
            None => _ = sender.send(only(StatusCode::SERVICE_UNAVAILABLE)),
            Some(running) => {
                let time = shared.handler_times.begin(fibers, scope.clone());
                let shared = Rc::clone(shared);
                let call = Call { shared, scope, sender, _running: running };
                // If the spawn fails, the sender is dropped: hyper then resets the stream.
                fibers.spawn(move || call.run(request, time));
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
    fn run(self, mut request: http::Request<Incoming>, time: HandlerTime) {
        let connect = heads::take_connect(&mut request);
        let is_head = request.method() == Method::HEAD;
        let mut response = self.response_to(request, time);
        let upgrade = response.extensions_mut().remove::<Upgrade>();
        match (connect, upgrade) {
            (Some(connect), Some(upgrade))
                if response.status() == StatusCode::SWITCHING_PROTOCOLS =>
            {
                self.open_tunnel(connect, upgrade, response);
            }
            // The client would take a success for a tunnel.
            (Some(_), None) if response.status().is_success() => {
                self.respond(StatusCode::NOT_IMPLEMENTED.into_response(), is_head);
            }
            (_, upgrade) if upgrade.is_some() || response.status().is_informational() => {
                log::error!("a handler wanted to change the protocol of a request of HTTP/2");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                self.respond(failed::response(status, Some(response)), is_head);
            }
            _ => self.respond(response, is_head),
        }
    }

    fn response_to(&self, request: http::Request<Incoming>, time: HandlerTime) -> Response {
        match self.received(request, &time) {
            Ok(request) => self.call_handler(request, time),
            Err(status) => {
                let client = &self.shared.client;
                log::debug!("a request of {client} is refused: {status}");
                status.into_response()
            }
        }
    }

    /// Lets the stream of the request speak another protocol.
    fn open_tunnel(self, connect: OnUpgrade, upgrade: Upgrade, mut response: Response) {
        *response.status_mut() = StatusCode::OK;
        response.headers_mut().remove(CONTENT_LENGTH);
        let response = response.map(|_| ResponseBody::full(Bytes::new()));
        if self.sender.send(response).is_err() {
            return;
        }
        self.shared.until_end.run(|| {
            // If it fails, the client has reset the stream.
            if let Ok(Ok(end)) = block_on_or_cancelled(connect) {
                let tunnel = Arc::new(Tunnel::new(end));
                let until_stop = self.shared.until_stop.clone();
                upgrade.call(Upgraded::new(tunnel, Input::default(), until_stop));
            }
        });
    }

    fn respond(self, response: Response, is_head: bool) {
        let limits = self.shared.limits();
        let (mut parts, body) = response.into_parts();
        let length = body.length();
        heads::settle_length(parts.status, &mut parts.headers, is_head, length);
        let kind = match body.0 {
            kind if !is_head && heads::may_have_body(parts.status) => kind,
            _ => BodyKind::Empty,
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
    fn received(
        &self,
        request: http::Request<Incoming>,
        time: &HandlerTime,
    ) -> Result<Request, StatusCode> {
        let limits = self.shared.limits();
        heads::check(&request, limits)?;
        let arriving = |body| {
            let until_end = self.shared.until_end.clone();
            Body(BodyKind::Arriving(Box::new(RequestBody::new(body, limits, until_end))))
        };
        let mut request = request.map(|body| match body.is_end_stream() {
            true => Body::empty(),
            false => arriving(body),
        });
        heads::check_host(&mut request)?;
        heads::join_cookies(request.headers_mut());
        let mut request = Request::from(request);
        self.shared.client.describe(request.parts_mut());
        let origin = Origin { number: time.number(), ..request.origin() };
        request.set_origin(origin);
        Ok(request)
    }

    fn call_handler(&self, request: Request, time: HandlerTime) -> Response {
        let call = || self.shared.service.router.call(request);
        match catch_unwind(AssertUnwindSafe(|| self.scope.run(call))) {
            Ok(response) if time.end() => {
                failed::forget();
                response
            }
            // What the handler has returned may lack what it waited for.
            Ok(late) => failed::response(StatusCode::SERVICE_UNAVAILABLE, Some(late)),
            Err(_) => failed::response(StatusCode::INTERNAL_SERVER_ERROR, None),
        }
    }
}

fn only(status: StatusCode) -> http::Response<ResponseBody> {
    let mut response = http::Response::new(ResponseBody::full(Bytes::new()));
    *response.status_mut() = status;
    response
}
