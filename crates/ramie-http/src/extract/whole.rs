//! Whole bodies, as bytes or as text.

use bytes::Bytes;
use http::StatusCode;

use super::{FromRequest, Rejection, content_type};
use crate::request::Request;

/// The whole body, up to the limit of the server. Of reading it: as [`BodyError::status`].
///
/// [`BodyError::status`]: crate::BodyError::status
impl<S> FromRequest<S> for Bytes {
    type Rejection = Rejection;

    fn from_request(request: Request, _: &S) -> Result<Self, Rejection> {
        Ok(request.into_body().into_bytes(u64::MAX)?)
    }
}

/// As [`Bytes`].
impl<S> FromRequest<S> for Vec<u8> {
    type Rejection = Rejection;

    fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        // Without a copy, because nothing else shares the bytes of a body that was received.
        Bytes::from_request(request, state).map(Vec::from)
    }
}

/// The whole body as text: 415 if its charset is another one than UTF-8, 400 if it is not UTF-8.
impl<S> FromRequest<S> for String {
    type Rejection = Rejection;

    fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        content_type::check_charset(request.header_str("content-type"))?;
        let body = Vec::from_request(request, state)?;
        String::from_utf8(body)
            .map_err(|_| Rejection::new(StatusCode::BAD_REQUEST, "the body is not UTF-8"))
    }
}
