//! Arguments of handlers, made of the request by their types.
//!
//! | type | is | otherwise |
//! |---|---|---|
//! | [`Request`], [`Body`], [`Parts`] references | the request itself | |
//! | [`Method`], [`Uri`], [`Version`], [`HeaderMap`], [`Extensions`] | parts of the head | |
//! | [`State`] | the state of the router | |
//! | [`Peer`] | the address of the client | 500 |

use std::{convert::Infallible, net::SocketAddr};

use http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version};

use crate::{
    body::Body,
    request::{Parts, Request},
    response::IntoResponse,
};

/// An argument that is made of the head of a request.
///
/// `S` is the state of the router.
pub trait FromParts<S>: Sized {
    /// What the client gets if it cannot be made.
    type Rejection: IntoResponse;

    /// Makes it.
    ///
    /// # Errors
    /// With the response that the client gets.
    fn from_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection>;
}

/// An argument that is made of a whole request; the last one of a handler.
pub trait FromRequest<S>: Sized {
    /// What the client gets if it cannot be made.
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

/// The state of the router, given by [`Router::with_state`](crate::Router::with_state).
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::sync::Arc;
/// use ramie_http::{Request, Router, extract::State, get};
///
/// let count = |State(count): State<Arc<AtomicU32>>| {
///     count.fetch_add(1, Ordering::Relaxed).to_string()
/// };
/// let router = Router::new().route("/", get(count)).with_state(Arc::new(AtomicU32::new(7)));
/// let response = router.call(Request::get("/"));
/// assert_eq!(response.into_body().into_bytes(10)?, "7");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct State<T>(pub T);

impl<S: Clone> FromParts<S> for State<S> {
    type Rejection = Infallible;

    fn from_parts(_: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(State(state.clone()))
    }
}

/// The address of the client, or of what is before the server. 500 if there is none, as for Unix
/// sockets.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl<S> FromParts<S> for Peer {
    type Rejection = StatusCode;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        parts.peer_addr().map(Peer).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
