//! Arguments of handlers, made of the request by their types.
//!
//! | type | is | otherwise |
//! |---|---|---|
//! | [`Path`] | the parameters of the path | 400; 500 if the route has others |
//! | [`Query`] | the parameters of the query | 400 |
//! | [`Method`], [`Uri`], [`Version`], [`HeaderMap`], [`Extensions`] | parts of the head | |
//! | [`Host`] | the host that the client asks for | 400 |
//! | `TypedHeader` (with the feature `headers`) | a field, as a type of the crate `headers` | 400 |
//! | [`Cookies`] | the cookies that the client has sent | |
//! | [`State`] | the state of the router, or a part of it ([`FromRef`]) | |
//! | [`Extension`] | a value that middleware has left in the request | 500 |
//! | [`MatchedPath`] | the path of the route | 500 |
//! | [`Peer`] | the address of the client, or of the proxy before the server | 500 |
//! | [`RequestId`](crate::middleware::RequestId) | the id that middleware has given the request | 500 |
//! | [`LastEventId`](crate::sse::LastEventId) | the last server-sent event that the client has seen | 400 |
//! | `Option<T>` of any `T` here | `T`, or `None` if it cannot be made | |
//! | `Result<T, T::Rejection>` of any `T` here | `T`, or why it cannot be made | |
//!
//! The following take the body, so they can only be the last argument:
//!
//! | type | is | otherwise |
//! |---|---|---|
//! | [`Request`], [`Body`] | the request itself, or its body | |
//! | `WebSocketUpgrade` (with the feature `websocket`) | a request to speak WebSocket | 400, 426 |
//! | [`Json`] | the body as JSON | 400, 415, 422 |
//! | [`Form`] | the fields of a form | 400, 413, 415, 422 |
//! | [`Multipart`] | a form in parts, with files, which is read as it arrives | 400, 415 |
//! | [`Bytes`](bytes::Bytes), `Vec<u8>` | the whole body | |
//! | `String` | the whole body as text | 400, 415 |
//!
//! Of types that read the body, a body that is too large is 413; one that arrives too slowly 408;
//! one that is malformed or ends too early 400 ([`BodyError::status`](crate::BodyError::status)).
//! The connection is then closed.

mod content_type;
mod cookies;
mod fields;
mod head;
mod json;
mod multipart;
mod path;
mod query;
mod rejection;
mod state;
#[cfg(feature = "headers")]
mod typed_header;
mod whole;

#[cfg(feature = "signed-cookies")]
pub use self::cookies::CookieKey;
#[cfg(feature = "headers")]
pub use self::typed_header::TypedHeader;
pub use self::{
    cookies::{CookieError, Cookies, SameSite, SetCookie},
    head::{Extension, Host, MatchedPath},
    json::Json,
    multipart::{FormPart, Multipart, MultipartLimits},
    path::Path,
    query::{Form, Query},
    rejection::Rejection,
    state::{FromRef, State},
};

use std::{convert::Infallible, net::SocketAddr};

use http::{Extensions, HeaderMap, Method, Uri, Version};

use crate::{
    body::Body,
    request::{Parts, Request},
    response::IntoResponse,
};

/// An argument that is made of the head of a request.
///
/// `S` is the state of the router. An argument that needs a part `T` of it is implemented for all
/// `S` with `T: FromRef<S>` ([`FromRef`]).
///
/// # Examples
/// ```
/// use ramie_http::{Parts, Request, Router, StatusCode, get};
/// use ramie_http::extract::{FromParts, FromRef, Rejection};
///
/// #[derive(Clone)]
/// struct Keys(Vec<String>);
///
/// /// A client that has named one of the keys.
/// struct Known(String);
///
/// impl<S> FromParts<S> for Known
/// where
///     Keys: FromRef<S>,
/// {
///     type Rejection = Rejection;
///
///     fn from_parts(parts: &mut Parts, state: &S) -> Result<Self, Rejection> {
///         let key = parts.header_str("x-key").unwrap_or_default();
///         match Keys::from_ref(state).0.iter().find(|own| *own == key) {
///             Some(key) => Ok(Known(key.clone())),
///             None => Err(Rejection::new(StatusCode::UNAUTHORIZED, "no key is named")),
///         }
///     }
/// }
///
/// let router = Router::new().route("/", get(|Known(key)| key));
/// let router = router.with_state(Keys(vec!["a key".to_owned()]));
/// assert_eq!(router.call(Request::get("/")).status(), StatusCode::UNAUTHORIZED);
/// ```
pub trait FromParts<S>: Sized {
    /// The response if it cannot be made.
    type Rejection: IntoResponse;

    /// Makes it.
    ///
    /// # Errors
    /// With the response that the client gets.
    fn from_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection>;
}

/// An argument that is made of a whole request; the last one of a handler.
pub trait FromRequest<S>: Sized {
    /// The response if it cannot be made.
    type Rejection: IntoResponse;

    /// Makes it.
    ///
    /// # Errors
    /// With the response that the client gets.
    fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection>;
}

impl<S> FromRequest<S> for Request {
    type Rejection = Infallible;

    fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(request)
    }
}

impl<S> FromRequest<S> for Body {
    type Rejection = Infallible;

    fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(request.into_body())
    }
}

macro_rules! from_parts {
    ($($of:ty: $get:expr),* $(,)?) => {$(
        impl<S> FromParts<S> for $of {
            type Rejection = Infallible;

            fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
                let get: fn(&Parts) -> $of = $get;
                Ok(get(parts))
            }
        }
    )*};
}

from_parts! {
    Method: |parts| parts.method().clone(),
    Uri: |parts| parts.uri().clone(),
    Version: Parts::version,
    HeaderMap: |parts| parts.headers().clone(),
    Extensions: |parts| parts.extensions().clone(),
}

impl<S, T: FromParts<S>> FromParts<S> for Option<T> {
    type Rejection = Infallible;

    fn from_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(T::from_parts(parts, state).ok())
    }
}

impl<S, T: FromParts<S>> FromParts<S> for Result<T, T::Rejection> {
    type Rejection = Infallible;

    fn from_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(T::from_parts(parts, state))
    }
}

impl<S, T: FromRequest<S>> FromRequest<S> for Option<T> {
    type Rejection = Infallible;

    fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        Ok(T::from_request(request, state).ok())
    }
}

impl<S, T: FromRequest<S>> FromRequest<S> for Result<T, T::Rejection> {
    type Rejection = Infallible;

    fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        Ok(T::from_request(request, state))
    }
}

/// The address of the client. 500 if there is none, as for Unix sockets.
///
/// Behind a proxy that speaks HTTP, this is the address of the proxy, as it is for the access log
/// and for [`Limits::connections_per_address`](crate::Limits::connections_per_address), which is
/// then to be raised. If the proxy can send the PROXY protocol, use
/// [`Server::proxy_protocol`](crate::Server::proxy_protocol). `X-Forwarded-For` is not read,
/// because any client can send it: a handler may read it if this address is that of the own proxy.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl<S> FromParts<S> for Peer {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let none = || Rejection::of_program("the address of the client is not known");
        parts.peer_addr().map(Peer).ok_or_else(none)
    }
}
