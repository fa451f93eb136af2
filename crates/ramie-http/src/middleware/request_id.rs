//! An id for each request, by which the lines of several logs are found.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    ops::Deref,
    sync::Arc,
};

use http::HeaderValue;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{
    extract::{FromParts, Rejection},
    failed::{LeaveOnPanic, REQUEST_ID},
    request::{Parts, Request},
    response::Response,
    router::Next,
};

/// Longer ids of clients are replaced, because logs repeat them.
const LONGEST: usize = 128;

/// The id of a request, which [`request_id`] has taken from the client or has made.
///
/// It has 1 to 128 bytes and the characters of a token (RFC 9110, section 5.6.2), so it can be
/// written to logs and headers as it is.
///
/// # Errors
/// As an argument of a handler: 500 if the router lacks the layer.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get, middleware::{RequestId, request_id}};
///
/// let router = Router::new().route("/", get(|id: RequestId| id.to_string())).layer(request_id);
/// let response = router.call(Request::get("/").with_header("x-request-id", "a7"));
/// assert_eq!(response.into_body().into_bytes(100)?, "a7");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// Makes an id of 32 random hexadecimal digits.
    ///
    /// # Blocking
    /// Never.
    pub fn random() -> Self {
        RequestId(format!("{:032x}", random_bits()).into())
    }

    /// The id that a client has sent, if it has the form of one.
    fn of_client(value: &[u8]) -> Option<Self> {
        let is_valid = (1..=LONGEST).contains(&value.len()) && value.iter().all(is_of_token);
        let text = str::from_utf8(value).ok().filter(|_| is_valid)?;
        Some(RequestId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_of_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Random bits of the kernel, because processes that share memory until they fork must not make
/// the same ids.
pub(super) fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => u128::from_ne_bytes(bytes),
        // Only where the system forbids the call. std has random keys then, too.
        _ => {
            let half = || u128::from(RandomState::new().hash_one(std::process::id()));
            half() << 64 | half()
        }
    }
}

impl Deref for RequestId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// For requests to other services.
impl From<&RequestId> for HeaderValue {
    fn from(id: &RequestId) -> Self {
        HeaderValue::from_str(id).expect("the characters of a token")
    }
}

impl<S> FromParts<S> for RequestId {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        parts.extensions().get().cloned().ok_or_else(|| {
            Rejection::of_program("the router lacks the layer `middleware::request_id`")
        })
    }
}

/// Middleware that gives each request an id, and sends it with the response as `x-request-id`.
///
/// If the client, or a proxy before the server, has sent a valid `x-request-id`, that is the id;
/// otherwise [`RequestId::random`] makes one. Handlers and inner layers get it as [`RequestId`].
/// A client can send any id, so it is no proof of anything.
///
/// A response that the connection makes instead of the handler's, because the handler has panicked
/// or its time is up, has the id, too. One to a request that is no request, such as 400 or 408, has
/// none.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get, middleware::request_id};
///
/// let router = Router::new().route("/", get(|| "hello")).layer(request_id);
/// assert_eq!(router.call(Request::get("/")).headers()["x-request-id"].len(), 32);
/// ```
pub fn request_id(mut request: Request, next: Next<'_>) -> Response {
    let of_client = request.header(REQUEST_ID.as_str()).and_then(RequestId::of_client);
    let id = of_client.unwrap_or_else(RequestId::random);
    let value = HeaderValue::from(&id);
    request.extensions_mut().insert(id);
    let leave = LeaveOnPanic(&value);
    let mut response = next.call(request);
    drop(leave);
    response.headers_mut().insert(REQUEST_ID, value);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_clients_are_tokens_of_bounded_length() {
        let longest = "x".repeat(LONGEST);
        for valid in ["a", "7f3-9_A.~", "!#$%&'*+-.^_`|~", &longest] {
            assert_eq!(RequestId::of_client(valid.as_bytes()).unwrap().as_str(), valid);
        }
        let too_long = "x".repeat(LONGEST + 1);
        for invalid in ["", " ", "a b", "a\"", "a\u{1b}", "ä", "a,b", &too_long] {
            assert_eq!(RequestId::of_client(invalid.as_bytes()), None, "{invalid:?}");
        }
    }

    #[test]
    fn random_ids_differ_and_are_valid() {
        let (a, b) = (RequestId::random(), RequestId::random());
        assert_ne!(a, b);
        assert_eq!(RequestId::of_client(a.as_bytes()), Some(a));
    }
}
