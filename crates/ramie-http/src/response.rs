//! Responses, and what can become one.

use std::{borrow::Cow, convert::Infallible, mem};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ALLOW, LOCATION},
};

use crate::{body::Body, header_maps, refusal::Refusal};

/// A response: that of the crate [`http`] with a [`Body`].
pub type Response = http::Response<Body>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// What a handler may return.
///
/// | type | response |
/// |---|---|
/// | `()` | 200, without a body |
/// | `&'static str`, `String`, `Cow<'static, str>` | 200, `text/plain; charset=utf-8` |
/// | `&'static [u8]`, `Vec<u8>`, `Bytes` | 200, `application/octet-stream` |
/// | [`Html`], [`Json`](crate::extract::Json), [`Redirect`] | as they say |
/// | [`StatusCode`] | that status, without a body |
/// | [`Body`], [`Response`] | as they are |
/// | `(StatusCode, T)` | T with that status |
/// | `(HeaderMap, T)`, `([(name, value); N], T)` | T with these headers instead of its own |
/// | `(StatusCode, headers, T)` | both |
/// | `Result<T, E>` | that of T or of E |
/// | [`Rejection`](crate::extract::Rejection) | as it says; `?` makes one of an I/O error |
///
/// # Examples
/// ```
/// use ramie_http::{IntoResponse, StatusCode};
///
/// let response = (StatusCode::CREATED, [("location", "/things/1")], "made").into_response();
/// assert_eq!(response.headers()["location"], "/things/1");
/// ```
///
/// An error type of the program, for `?` in handlers:
/// ```
/// use std::{collections::BTreeMap, io::{self, Read}};
/// use ramie_http::{Body, IntoResponse, Request, Response, Router, StatusCode, post};
/// use ramie_http::extract::{Json, Rejection};
///
/// enum AppError {
///     NoSuchUser(String),
///     /// A read or another wait has failed.
///     Io(Rejection),
/// }
///
/// impl From<io::Error> for AppError {
///     fn from(error: io::Error) -> Self {
///         // It knows which errors are the client's (413, 408, 400) and which are to be logged.
///         AppError::Io(error.into())
///     }
/// }
///
/// impl IntoResponse for AppError {
///     fn into_response(self) -> Response {
///         match self {
///             AppError::NoSuchUser(name) => {
///                 let body = Json(BTreeMap::from([("no such user", name)]));
///                 (StatusCode::NOT_FOUND, body).into_response()
///             }
///             AppError::Io(rejection) => rejection.into_response(),
///         }
///     }
/// }
///
/// fn user(mut body: Body) -> Result<String, AppError> {
///     let mut name = String::new();
///     body.read_to_string(&mut name)?;
///     Err(AppError::NoSuchUser(name))
/// }
///
/// let router = Router::new().route("/user", post(user));
/// let response = router.call(Request::post("/user", "Ada"));
/// assert_eq!(response.status(), StatusCode::NOT_FOUND);
/// assert_eq!(response.into_body().into_bytes(100)?, r#"{"no such user":"Ada"}"#);
/// # Ok::<(), std::io::Error>(())
/// ```
/// A rejection of an argument gets the program's form, too, if the handler takes a
/// `Result<Json<T>, Rejection>`, for example.
pub trait IntoResponse {
    /// The response.
    fn into_response(self) -> Response;
}

/// A response of this type.
pub(crate) fn with_type(body: impl Into<Body>, content_type: HeaderValue) -> Response {
    // Before the response: no panic can then drop the response, so it is built where the caller
    // wants it.
    let mut headers = HeaderMap::new();
    header_maps::fill(&mut headers, content_type);
    let mut response = Response::new(body.into());
    // An empty map has no memory, and its destructor would cost more than all else here.
    mem::forget(mem::replace(response.headers_mut(), headers));
    response
}

macro_rules! into_response {
    ($content_type:ident: $($of:ty),*) => {$(
        impl IntoResponse for $of {
            fn into_response(self) -> Response {
                with_type(self, $content_type)
            }
        }
    )*};
}

into_response!(TEXT: &'static str, String, Cow<'static, str>);
into_response!(BYTES: &'static [u8], Vec<u8>, Box<[u8]>, Bytes);

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::new(Body::empty())
    }
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl<B: Into<Body>> IntoResponse for http::Response<B> {
    fn into_response(self) -> Response {
        self.map(Into::into)
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self;
        response
    }
}

impl IntoResponse for Infallible {
    fn into_response(self) -> Response {
        match self {}
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl<T: IntoResponse> IntoResponse for (StatusCode, T) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        *response.status_mut() = self.0;
        response
    }
}

/// Headers that a handler returns in a tuple: a [`HeaderMap`], or an array of names and values.
pub trait ResponseHeaders {
    /// Puts the headers into the map, instead of others of the same names.
    ///
    /// # Panics
    /// If a name or a value cannot be one of a header.
    fn insert_into(self, headers: &mut HeaderMap);
}

impl ResponseHeaders for HeaderMap {
    fn insert_into(self, headers: &mut HeaderMap) {
        headers.extend(self);
    }
}

impl<K, V, const N: usize> ResponseHeaders for [(K, V); N]
where
    K: TryInto<HeaderName, Error: std::fmt::Debug>,
    V: TryInto<HeaderValue, Error: std::fmt::Debug>,
{
    fn insert_into(self, headers: &mut HeaderMap) {
        for (name, value) in self {
            let name = name.try_into().expect("the name of a header");
            let value = value.try_into().expect("the value of a header");
            headers.insert(name, value);
        }
    }
}

impl<H: ResponseHeaders, T: IntoResponse> IntoResponse for (H, T) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        self.0.insert_into(response.headers_mut());
        response
    }
}

impl<H: ResponseHeaders, T: IntoResponse> IntoResponse for (StatusCode, H, T) {
    fn into_response(self) -> Response {
        (self.0, (self.1, self.2)).into_response()
    }
}

/// A page: `text/html; charset=utf-8`.
#[derive(Clone, Copy, Debug)]
pub struct Html<T>(pub T);

impl<T: Into<Body>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        with_type(self.0, HTML)
    }
}

/// Sends the client to another place.
#[derive(Clone, Debug)]
pub struct Redirect {
    status: StatusCode,
    to: String,
}

impl Redirect {
    /// 303: the client GETs `to`, whatever the method of its request was.
    pub fn to(to: impl Into<String>) -> Self {
        Redirect { status: StatusCode::SEE_OTHER, to: to.into() }
    }

    /// 307: the client repeats its request at `to`.
    pub fn temporary(to: impl Into<String>) -> Self {
        Redirect { status: StatusCode::TEMPORARY_REDIRECT, to: to.into() }
    }

    /// 308: as [`temporary`](Self::temporary), from now on.
    pub fn permanent(to: impl Into<String>) -> Self {
        Redirect { status: StatusCode::PERMANENT_REDIRECT, to: to.into() }
    }
}

/// 500 if the place cannot be the value of a header.
impl IntoResponse for Redirect {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        match HeaderValue::try_from(self.to) {
            Ok(to) => _ = response.headers_mut().insert(LOCATION, to),
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
        response
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), format!("{}\n", self.reason())).into_response()
    }
}

/// 405 with the methods that are allowed.
pub(crate) fn method_not_allowed(allowed: &str) -> Response {
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// Whether a method is one of HTTP, so that a resource may be said not to allow it.
pub(crate) fn is_of_http(method: &Method) -> bool {
    const ALL: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
        Method::PATCH,
        Method::CONNECT,
        Method::TRACE,
    ];
    ALL.contains(method)
}
