//! Parts of the head of a request, and values that the router and middleware have added to it.

use std::{any::type_name, fmt, ops::Deref, sync::Arc};

use http::StatusCode;

use super::{FromParts, Rejection};
use crate::request::Parts;

/// A value that middleware has left in the request, by its type.
///
/// # Errors
/// 500 if there is none.
///
/// # Examples
/// ```
/// use ramie_http::{Next, Request, Router, extract::Extension, get};
///
/// #[derive(Clone)]
/// struct User(&'static str);
///
/// let router = Router::new()
///     .route("/", get(|Extension(user): Extension<User>| user.0))
///     .layer(|mut request: Request, next: Next<'_>| {
///         request.extensions_mut().insert(User("Ada"));
///         next.call(request)
///     });
/// let response = router.call(Request::get("/"));
/// assert_eq!(response.into_body().into_bytes(10)?, "Ada");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<T>(pub T);

impl<T: Clone + Send + Sync + 'static, S> FromParts<S> for Extension<T> {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        parts.extensions().get().cloned().map(Extension).ok_or_else(|| {
            let name = type_name::<T>();
            Rejection::of_program(format!("no middleware has left a `{name}` in the request"))
        })
    }
}

/// The path of the route that matches the request, such as `/users/{id}`: a name for metrics and
/// logs that clients cannot make up. With the prefix of a nested router.
///
/// Handlers have it, and the middleware of routers that were merged or nested. The middleware of
/// the outermost router runs before the route is found, so middleware that measures by route wraps
/// a router that is then merged.
///
/// # Errors
/// 500 if no route matches, as for a fallback.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, extract::MatchedPath, get};
///
/// let router = Router::new().route("/users/{id}", get(|path: MatchedPath| path.to_string()));
/// let response = router.call(Request::get("/users/7"));
/// assert_eq!(response.into_body().into_bytes(100)?, "/users/{id}");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Middleware that measures by route:
/// ```
/// use std::time::Instant;
/// use ramie_http::{Next, Request, Response, Router, get};
/// use ramie_http::extract::{FromParts, MatchedPath};
///
/// fn measure(mut request: Request, next: Next<'_>) -> Response {
///     let path = MatchedPath::from_parts(request.parts_mut(), &());
///     let began = Instant::now();
///     let response = next.call(request);
///     let path = path.as_deref().unwrap_or("none");
///     println!("{path}: {} after {:?}", response.status(), began.elapsed());
///     response
/// }
///
/// let routes = Router::new().route("/users/{id}", get(|| "a user"));
/// let router = Router::new().merge(routes.layer(measure));
/// assert_eq!(router.call(Request::get("/users/7")).status(), 200);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatchedPath(Arc<str>);

impl MatchedPath {
    /// The path, as it was given to [`Router::route`](crate::Router::route).
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for MatchedPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MatchedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<S> FromParts<S> for MatchedPath {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let route = parts.route().cloned().map(MatchedPath);
        route.ok_or_else(|| Rejection::of_program("no route matches the request"))
    }
}

/// The host that the client asks for, with the port if the client names one, such as
/// `example.org:8080`.
///
/// It is the host of the target, if that is a whole URI, otherwise the field `Host` (RFC 9112,
/// section 3.2). Other fields, such as `X-Forwarded-Host`, do not count. A client can ask for any
/// host, so compare it with those that the program serves before you make links of it.
///
/// # Errors
/// 400 if the client names none.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, extract::Host, get};
///
/// let router = Router::new().route("/", get(|Host(host): Host| host));
/// let response = router.call(Request::get("/").with_header("host", "example.org:8080"));
/// assert_eq!(response.into_body().into_bytes(100)?, "example.org:8080");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host(pub String);

impl Host {
    /// The host without its port.
    pub fn name(&self) -> &str {
        // A colon inside of brackets is of an address of IPv6.
        let behind = self.0.rfind(']').map_or(0, |at| at + 1);
        let end = self.0[behind..].find(':').map_or(self.0.len(), |at| behind + at);
        &self.0[..end]
    }

    /// The port, if the client names one.
    pub fn port(&self) -> Option<u16> {
        self.0[self.name().len()..].strip_prefix(':')?.parse().ok()
    }
}

impl<S> FromParts<S> for Host {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let host = parts.authority_of_target().or_else(|| parts.header_str("host"));
        let host = host.filter(|host| !host.is_empty());
        host.map(|host| Host(host.to_owned())).ok_or_else(|| {
            Rejection::new(StatusCode::BAD_REQUEST, "the request does not name a host")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Host;

    #[test]
    fn a_host_is_split_from_its_port() {
        for (host, name, port) in [
            ("a", "a", None),
            ("a:80", "a", Some(80)),
            ("a:", "a", None),
            ("[::1]", "[::1]", None),
            ("[::1]:8080", "[::1]", Some(8080)),
        ] {
            let host = Host(host.to_owned());
            assert_eq!((host.name(), host.port()), (name, port), "{host:?}");
        }
    }
}
