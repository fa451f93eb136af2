//! One connection of HTTP/1.1: requests in, responses out, on a fiber of its own.
//!
//! # Protocol
//! | phase | waits for | limit | then |
//! |---|---|---|---|
//! | idle | the first byte of a request | `idle_timeout` | head |
//! | head | the end of the head | `head_timeout` from its first byte | handler; 408 if it is late |
//! | handler | what the handler waits for, the body included | `request_timeout` | write; 503 if it is late |
//! | write | the client to take bytes | `write_timeout` for each write | stream, or closed |
//! | stream | what the writer of a body waits for | | write, or rest |
//! | rest | the part of the request's body that nobody has read | 64 KiB, at the pace of bodies and within `body_grace` | idle, or closed |
//!
//! A head that arrives as a whole is no phase of its own, unless it is the first one: its handler
//! follows the idle phase.
//!
//! The connection keeps no clock: it tells the server its phase ([`presence`]), and the server ends
//! phases that last too long. It shuts the read side of an idle connection and of one that sends
//! its head too slowly down, and cancels handlers and the writers of bodies. So a wait costs no
//! timer, and one outside of handlers not even a look at a scope.
//!
//! A response is sent before the next handler runs, or before the connection waits for input. Until
//! it is sent, the runtime receives about 64 KiB and no more, so a client that does not read its
//! responses cannot make the server keep them.
//!
//! After a request that breaks the protocol nothing that follows can be trusted to be a request.
//! Such a connection is closed with the response, and lingers (`linger.rs`).

mod client;
mod ended;
mod linger;
mod next_head;
mod no_head;
mod output;
mod presence;
mod respond;
mod upgrade;
mod with_body;

use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use http::{Method, StatusCode};

pub(crate) use self::client::Client;
pub(crate) use self::linger::linger;
pub(crate) use self::presence::{Phase, Presence, TIME_IS_UP, Verdict};
#[cfg(any(feature = "http2", feature = "websocket"))]
pub(crate) use self::upgrade::ByConnect;
pub use self::upgrade::{Upgrade, Upgraded};
use self::{ended::Ended, no_head::NoHead, output::Output, respond::Asked};
#[cfg(feature = "http2")]
use crate::http2;
use crate::{
    body::{Body, Incoming},
    failed,
    h1::framing::Framing,
    io::{Input, Receiver, Stream, Wire},
    limits::Limits,
    parts_box::PartsBox,
    refusal::Refusal,
    request::Request,
    response::{IntoResponse, Response},
    router::Router,
};

/// How long the client may still send behind the last response.
const LINGER: Duration = Duration::from_secs(5);
/// What connections share.
pub(crate) struct Service {
    pub(crate) router: Router,
    pub(crate) limits: Limits,
}

/// Serves until either side closes the connection.
///
/// # Errors
/// Those of the stream, which concern the client only, and those of the bodies of responses.
pub(crate) fn serve(
    wire: &mut Wire<'_>,
    service: &Arc<Service>,
    presence: &impl Presence,
    client: &Client,
) -> io::Result<()> {
    let served = serve_until_end(wire, service, presence, client);
    if served.is_err() && presence.verdict() == Verdict::Gone {
        // The kernel would otherwise keep the responses that the client does not take.
        wire.stream.socket().reset_on_close();
    }
    served
}

fn serve_until_end(
    wire: &mut Wire<'_>,
    service: &Arc<Service>,
    presence: &impl Presence,
    client: &Client,
) -> io::Result<()> {
    #[cfg(feature = "http2")]
    if client.speaks_http2() {
        return http2::serve(wire, service, presence, client);
    }
    match converse(wire, service, presence, client)? {
        #[cfg(feature = "http2")]
        Ended::Http2 => http2::serve(wire, service, presence, client),
        ended => close(wire, presence, ended),
    }
}

/// Serves HTTP/1.1. Responses are sent when it returns. Not inlined, because each idle connection
/// keeps the frames that lie around its wait for a request, and those of its handlers below.
#[inline(never)]
fn converse(
    wire: &mut Wire<'_>,
    service: &Service,
    presence: &impl Presence,
    client: &Client,
) -> io::Result<Ended> {
    let mut connection = Http1 {
        service,
        presence,
        client: client.clone(),
        is_in_head: false,
        has_skipped_line: false,
        output: Output::new(wire.stream, presence),
        wire,
        served: 0,
    };
    let ended = connection.converse()?;
    if let Ended::ClosedByServer | Ended::Upgraded(_) = ended {
        connection.output.flush()?;
    }
    Ok(ended)
}

#[inline(never)]
fn close(wire: &mut Wire<'_>, presence: &impl Presence, ended: Ended) -> io::Result<()> {
    let stream = wire.stream;
    match ended {
        Ended::ClosedByServer => {
            // A head that was refused may lie in one of the runtime's buffers.
            wire.input = Input::default();
            presence.enter(Phase::Write);
            stream.say_goodbye()?;
            presence.enter(Phase::Other);
            linger(stream.socket(), &mut wire.receiver, LINGER);
            Ok(())
        }
        Ended::Upgraded(upgrade) => {
            presence.enter(Phase::Other);
            // Ends its op, because the protocol may read the stream on another worker.
            wire.receiver = Receiver::new(stream);
            let until_stop = presence.until_stop().clone();
            let input = mem::take(&mut wire.input);
            let upgraded = Upgraded::new(Arc::<Stream>::clone(stream), input, until_stop);
            presence.scope().run(|| upgrade.call(upgraded));
            presence.enter(Phase::Write);
            stream.say_goodbye()
        }
        _ => {
            presence.enter(Phase::Write);
            stream.say_goodbye()
        }
    }
}

/// A connection that is served.
struct Http1<'a, 's, P> {
    service: &'a Service,
    presence: &'a P,
    /// A copy, so that it lies beside what else a request touches.
    client: Client,
    wire: &'a mut Wire<'s>,
    /// Part of a head has arrived.
    is_in_head: bool,
    /// An empty line before the next request was skipped.
    has_skipped_line: bool,
    output: Output<'a>,
    served: u64,
}

/// The outcome of a handler's call.
enum Called {
    /// It has returned a response.
    Returned,
    /// It panicked, or its time was up: the status of the response, behind which the connection is
    /// closed.
    Failed(StatusCode),
    /// There is nobody to respond to.
    ClientGone,
}

/// The next step.
enum Step {
    NextRequest,
    End(Ended),
}

impl<P: Presence> Http1<'_, '_, P> {
    fn converse(&mut self) -> io::Result<Ended> {
        // The header of a proxy may have brought the beginning of the first head.
        if !self.wire.input.is_empty() {
            self.begin_head();
        }
        loop {
            match self.next_head() {
                Ok(parts) => match self.answer(parts)? {
                    Step::NextRequest => {}
                    Step::End(ended) => return Ok(ended),
                },
                Err(no_head) => return self.end(*no_head),
            }
        }
    }

    #[inline(never)]
    fn end(&mut self, no_head: NoHead) -> io::Result<Ended> {
        match no_head {
            NoHead::Closed => Ok(Ended::Closed),
            NoHead::Io(error) => Err(error),
            #[cfg(feature = "http2")]
            NoHead::Http2 => Ok(Ended::Http2),
            NoHead::Refused(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, refusal: Refusal) -> io::Result<Ended> {
        // A client can cause as many of them as it likes, so no higher level.
        log::debug!("a request of {} is refused: {refusal}", self.client);
        let asked = Asked { is_head: false, is_http_1_0: false, stays: false };
        respond::respond_any(&mut self.output, &mut refusal.into_response(), asked)?;
        Ok(Ended::ClosedByServer)
    }

    /// Not inlined, because the frame that waits for requests would have room for its variables.
    #[inline(never)]
    fn answer(&mut self, parts: PartsBox) -> io::Result<Step> {
        if self.presence.verdict() != Verdict::None {
            // It was judged too late for the head of the earlier response to announce the close.
            return Ok(Step::End(Ended::ClosedByServer));
        }
        let limits = &self.service.limits;
        let head = parts.head();
        self.served += 1;
        let asked = Asked {
            is_head: *parts.method() == Method::HEAD,
            is_http_1_0: head.is_http_1_0(),
            stays: head.stays && self.served < limits.requests_per_connection,
        };
        // The responses to earlier requests must not wait for this handler, nor for a body that the
        // client may send only behind them. Before the phase of the handler begins, because sending
        // has phases of its own.
        self.output.flush()?;
        if head.framing != Framing::Length(0) {
            return self.answer_with_body(parts, asked);
        }
        self.wire.input.copy();
        let wants_upgrade = head.wants_upgrade;
        let request = Request::received(parts, Body::empty());
        self.presence.enter(Phase::Handler);
        self.answer_request(&mut Some(request), wants_upgrade, None, asked)
    }

    /// Inlined, because the frames of handlers lie below this.
    #[inline(always)]
    fn answer_request(
        &mut self,
        request: &mut Option<Request>,
        wants_upgrade: bool,
        lent: Option<&Incoming>,
        asked: Asked,
    ) -> io::Result<Step> {
        let mut response = None;
        let may_stay = match self.call_handler(request, &mut response) {
            Called::Returned => {
                failed::forget();
                true
            }
            Called::Failed(status) => {
                replace(&mut response, status);
                false
            }
            Called::ClientGone => return Ok(Step::End(Ended::Closed)),
        };
        self.send_response(&mut response, may_stay, wants_upgrade, lent, asked)
    }

    /// Sends the response, and takes it. Not inlined, because the frames of handlers would lie
    /// below its variables.
    #[inline(never)]
    fn send_response(
        &mut self,
        returned: &mut Option<Response>,
        may_stay: bool,
        wants_upgrade: bool,
        lent: Option<&Incoming>,
        asked: Asked,
    ) -> io::Result<Step> {
        let Some(response) = returned else { return Ok(Step::End(Ended::Closed)) };
        // The server may have begun to stop while the handler ran, or have judged that it is late
        // when it had just returned. The scope then stays cancelled, so no handler can run in it.
        let is_judged = self.presence.verdict() != Verdict::None;
        let may_stay = may_stay && !is_judged && !self.presence.is_stopping();
        let mut asked = Asked { stays: asked.stays && may_stay, ..asked };
        if let Some(lent) = lent {
            asked.stays &= lent.settle(self.wire.stream, with_body::SKIPPED as u64)?;
        }
        if response.status().is_informational() {
            return self.switch(response, wants_upgrade, lent, asked);
        }
        let stays = respond::respond(&mut self.output, response, asked)?;
        respond::let_go(returned);
        self.go_on(lent, stays)
    }

    fn go_on(&mut self, lent: Option<&Incoming>, mut stays: bool) -> io::Result<Step> {
        if let Some(lent) = lent {
            stays = self.take_body_back(lent, stays)?;
        }
        Ok(if stays { Step::NextRequest } else { Step::End(Ended::ClosedByServer) })
    }

    /// Calls the handler with the request, which is there. The request and the response are moved
    /// once each, because the frames in between would have room for each copy.
    #[inline(never)]
    fn call_handler(
        &self,
        request: &mut Option<Request>,
        response: &mut Option<Response>,
    ) -> Called {
        let mut call = || {
            if let Some(request) = request.take() {
                let earlier = response.replace(self.service.router.call(request));
                // `response` was empty (see `answer_request`), but an assignment would still call
                // its destructor.
                debug_assert!(earlier.is_none());
                mem::forget(earlier);
            }
        };
        let called = catch_unwind(AssertUnwindSafe(|| self.presence.scope().run(&mut call)));
        match (self.presence.verdict(), called) {
            (Verdict::Gone, _) => Called::ClientGone,
            (_, Err(_)) => Called::Failed(StatusCode::INTERNAL_SERVER_ERROR),
            // What the handler has returned may lack what it waited for.
            (Verdict::Late, Ok(())) => Called::Failed(StatusCode::SERVICE_UNAVAILABLE),
            (Verdict::None, Ok(())) => Called::Returned,
        }
    }
}

#[cold]
#[inline(never)]
fn replace(response: &mut Option<Response>, status: StatusCode) {
    *response = Some(failed::response(status, response.take()));
}

#[cold]
#[inline(never)]
fn fail(response: &mut Response) {
    let replaced = mem::take(response);
    *response = failed::response(StatusCode::INTERNAL_SERVER_ERROR, Some(replaced));
}
