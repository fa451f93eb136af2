//! Fields of the head as types.

use headers::{Header, HeaderMapExt};
use http::{HeaderMap, StatusCode};

use super::{FromParts, Rejection};
use crate::{request::Parts, response::ResponseHeaders};

/// A field of the head as a type of the crate [`headers`]: of a request, or, before its body, of a
/// response. With the crate feature `headers`.
///
/// # Errors
/// 400 if the field is missing or malformed.
///
/// # Examples
/// ```
/// use headers::{CacheControl, UserAgent};
/// use ramie_http::{Request, Router, extract::TypedHeader, get};
///
/// let greet = |TypedHeader(agent): TypedHeader<UserAgent>| {
///     (TypedHeader(CacheControl::new().with_no_store()), format!("hello, {agent}"))
/// };
/// let router = Router::new().route("/", get(greet));
/// let response = router.call(Request::get("/").with_header("user-agent", "curl/8"));
/// assert_eq!(response.headers()["cache-control"], "no-store");
/// assert_eq!(response.into_body().into_bytes(100)?, "hello, curl/8");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedHeader<T>(pub T);

impl<T: Header, S> FromParts<S> for TypedHeader<T> {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let reason = match parts.headers().typed_try_get() {
            Ok(Some(field)) => return Ok(TypedHeader(field)),
            Ok(None) => format!("the request lacks the field `{}`", T::name()),
            Err(_) => format!("the field `{}` of the request is malformed", T::name()),
        };
        Err(Rejection::new(StatusCode::BAD_REQUEST, reason))
    }
}

impl<T: Header> ResponseHeaders for TypedHeader<T> {
    fn insert_into(self, headers: &mut HeaderMap) {
        headers.typed_insert(self.0);
    }
}

#[cfg(test)]
mod tests {
    use headers::{ContentType, Host};

    use super::*;
    use crate::request::Request;

    #[test]
    fn a_field_that_is_missing_or_malformed_is_a_400() {
        let mut request = Request::get("/").with_header("content-type", "nonsense");
        let host = TypedHeader::<Host>::from_parts(request.parts_mut(), &()).unwrap_err();
        assert_eq!(host.status(), StatusCode::BAD_REQUEST);
        assert_eq!(host.reason(), "the request lacks the field `host`");
        let found = TypedHeader::<ContentType>::from_parts(request.parts_mut(), &());
        assert_eq!(
            found.unwrap_err().reason(),
            "the field `content-type` of the request is malformed"
        );
    }
}
