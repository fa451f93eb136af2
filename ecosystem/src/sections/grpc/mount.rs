//! A service of tonic as a handler of ramie-http.

use std::{
    convert::Infallible,
    future::poll_fn,
    io::{self, Read, Write},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use ramie::{cancel, future::block_on_or_cancelled};
use ramie_http::{BodyWriter, Request, Response};
use tonic::Status;
use tower::Service;

/// The body of a request: each poll waits on the fiber of the request.
pub(super) struct Arriving(ramie_http::Body);

impl Body for Arriving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut piece = vec![0; 8 << 10];
        Poll::Ready(match self.0.read(&mut piece) {
            Ok(0) => None,
            Ok(count) => Some(Ok(Frame::data(Bytes::from(piece).slice(..count)))),
            Err(error) => Some(Err(error)),
        })
    }
}

/// Calls the service within the time that the client gives it: for a route such as
/// `/package.Service/{method}`. A client that resets the call cancels the waits of the method.
pub(super) fn grpc<S>(service: S) -> impl Fn(Request) -> Response + Clone
where
    S: Service<
            http::Request<Arriving>,
            Response = http::Response<tonic::body::Body>,
            Error = Infallible,
        > + Clone,
{
    move |request| {
        let timeout = request.header_str("grpc-timeout").and_then(duration);
        let timeout = timeout.unwrap_or(Duration::MAX);
        let mut asked = http::Request::new(());
        *asked.method_mut() = request.method().clone();
        *asked.uri_mut() = request.uri().clone();
        *asked.version_mut() = request.version();
        *asked.headers_mut() = request.headers().clone();
        let answer = service.clone().call(asked.map(|()| Arriving(request.into_body())));
        let answered = cancel::try_with_timeout(timeout, || block_on_or_cancelled(answer));
        let answer = answered
            .unwrap_or_else(|_| Ok(Status::deadline_exceeded("too slow").into_http()))
            .unwrap_or_else(|never| match never {});
        // A call that has failed is a head alone, and grpcio insists on that.
        answer.map(|body| match body.is_end_stream() {
            true => ramie_http::Body::empty(),
            false => ramie_http::Body::from_writer(move |out| send(body, out)),
        })
    }
}

fn send(body: tonic::body::Body, out: &mut BodyWriter<'_>) -> io::Result<()> {
    let mut body = pin!(body);
    loop {
        let next = poll_fn(|context| body.as_mut().poll_frame(context));
        let Some(frame) = block_on_or_cancelled(next)? else { return Ok(()) };
        match frame.map_err(io::Error::other)?.into_data() {
            Ok(data) => out.write_all(&data).and_then(|()| out.flush())?,
            Err(frame) => out.set_trailers(frame.into_trailers().unwrap_or_default()),
        }
    }
}

/// At most eight digits and a unit, such as `100m`.
fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u32 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let unit = match unit {
        "H" => Duration::from_secs(3600),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    unit.checked_mul(count)
}
