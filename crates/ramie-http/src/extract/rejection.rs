//! Why an argument of a handler cannot be made.

use std::{borrow::Cow, error::Error, fmt, io};

use http::{HeaderValue, StatusCode, header::CONNECTION};
use ramie::{cancel::Cancelled, channel::RecvError};

use crate::{
    body::BodyError,
    response::{IntoResponse, Response},
};

/// Why an argument of a handler cannot be made: the status of the response, and a sentence, which
/// is the body of the response.
///
/// The types of [`extract`](crate::extract) that can fail have this rejection. A handler that reads
/// a body may return it, too, because the errors of bodies become one.
///
/// # Examples
/// ```
/// use std::io::Read;
/// use ramie_http::{Body, Request, Router, extract::Rejection, post};
///
/// fn count_lines(mut body: Body) -> Result<String, Rejection> {
///     let mut text = String::new();
///     body.read_to_string(&mut text)?; // 413 if the body is too large
///     Ok(text.lines().count().to_string())
/// }
///
/// let router = Router::new().route("/", post(count_lines));
/// let response = router.call(Request::post("/", "one\ntwo\n"));
/// assert_eq!(response.into_body().into_bytes(10)?, "2");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// An extractor of the program may use it:
/// ```
/// use ramie_http::{Parts, Request, Router, StatusCode, get};
/// use ramie_http::extract::{FromParts, Rejection};
///
/// struct Token(String);
///
/// impl<S> FromParts<S> for Token {
///     type Rejection = Rejection;
///
///     fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
///         let token = parts.header_str("x-token").map(str::to_owned);
///         token.map(Token).ok_or_else(|| Rejection::new(StatusCode::UNAUTHORIZED, "no token"))
///     }
/// }
///
/// let router = Router::new().route("/", get(|Token(token)| token));
/// assert_eq!(router.call(Request::get("/")).status(), StatusCode::UNAUTHORIZED);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    status: StatusCode,
    reason: Cow<'static, str>,
    /// Whether nobody knows where the next request begins.
    closes: bool,
    /// Whether the program must be changed, and not the request.
    is_of_program: bool,
}

impl Rejection {
    /// A rejection with this status, whose response has the reason as its text.
    pub fn new(status: StatusCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Rejection { status, reason: reason.into(), closes: false, is_of_program: false }
    }

    /// 500: no request could be right, so the program must be changed. Logged when it becomes a
    /// response, because a handler that takes an `Option` expects it.
    pub(crate) fn of_program(reason: impl Into<Cow<'static, str>>) -> Self {
        let rejection = Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, reason);
        Rejection { is_of_program: true, ..rejection }
    }

    /// Closes the connection behind the response.
    pub(crate) fn and_close(mut self) -> Self {
        self.closes = true;
        self
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The text of the response, without its line end.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for Rejection {}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        if self.is_of_program {
            log::error!("{self}");
        }
        let mut response = (self.status, format!("{}\n", self.reason)).into_response();
        if self.closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The status is [`BodyError::status`]. The connection is closed behind the response, because the
/// rest of the body cannot be read.
impl From<BodyError> for Rejection {
    fn from(error: BodyError) -> Self {
        Rejection::new(error.status(), error.to_string()).and_close()
    }
}

/// A rejection or a [`BodyError`] inside of the error counts. 503 if the read was cancelled, as
/// when the time of the request is over. For any other error the response is 500 without the
/// error's text, which is logged instead, because it may name files of the server.
impl From<io::Error> for Rejection {
    fn from(error: io::Error) -> Self {
        if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<Rejection>()) {
            return inner.clone();
        }
        match BodyError::of(&error) {
            Some(error) => error.into(),
            None if ramie::cancel::is_cancelled(&error) => {
                // Otherwise a limit of the handler's own, or a cancellation of somebody else.
                if ramie::cancel::check_cancelled().is_ok() {
                    log::error!("a request failed: {error}");
                }
                let reason = "the request takes too long, or the server stops";
                Rejection::new(StatusCode::SERVICE_UNAVAILABLE, reason).and_close()
            }
            None => {
                log::error!("a request failed: {error}");
                let reason = "the server failed to handle the request";
                Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
            }
        }
    }
}

/// 503, as for a read that was cancelled.
impl From<Cancelled> for Rejection {
    fn from(cancelled: Cancelled) -> Self {
        io::Error::from(cancelled).into()
    }
}

/// 503 if the receive was cancelled. Otherwise the response is 500, because the program has dropped
/// all senders.
impl From<RecvError> for Rejection {
    fn from(error: RecvError) -> Self {
        io::Error::from(error).into()
    }
}

/// A read fails with a rejection inside of its error; its kind is one of those of [`BodyError`].
impl From<Rejection> for io::Error {
    fn from(rejection: Rejection) -> Self {
        let kind = match rejection.status {
            StatusCode::PAYLOAD_TOO_LARGE => io::ErrorKind::FileTooLarge,
            status if status.is_client_error() => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, rejection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_reads_keep_their_status() {
        let of_body = Rejection::from(io::Error::from(BodyError::TooLarge { most: 7 }));
        assert_eq!(of_body.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(of_body.to_string(), "the body of the request has more than 7 bytes");
        assert_eq!(of_body.clone().into_response().headers()["connection"], "close");
        assert_eq!(Rejection::from(io::Error::from(of_body.clone())), of_body);

        let of_disk = Rejection::from(io::Error::other("/secret/path is full"));
        assert_eq!(of_disk.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!of_disk.reason().contains("secret"));
        assert!(of_disk.into_response().headers().get("connection").is_none());
    }

    #[test]
    fn a_wait_that_is_cancelled_is_a_503() {
        let check = || Ok(ramie::cancel::check_cancelled()?);
        let (sender, receiver) = ramie::channel::bounded::<u8>(1);
        let receive = || Ok(receiver.recv().map(drop)?);
        let waits: [&dyn Fn() -> Result<(), Rejection>; 2] = [&check, &receive];
        for wait in waits {
            let late = ramie::cancel::with_timeout(std::time::Duration::ZERO, wait);
            let rejection = late.unwrap_err().into_value().unwrap_err();
            assert_eq!(rejection.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        drop(sender);
        assert_eq!(receive().unwrap_err().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
