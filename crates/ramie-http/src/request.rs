//! A request, as a handler gets it.

use std::{
    fmt,
    net::SocketAddr,
    ops::{Deref, DerefMut},
    sync::{Arc, OnceLock},
};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

use crate::{body::Body, h1::head::Head, origin::Origin, params::RouteParams, parts_box::PartsBox};

/// A request: its head, and its body, which is read as it arrives.
///
/// It is made of the types of the crate [`http`], but builds its [`Uri`] and [`HeaderMap`] only
/// when somebody asks for them. [`path`](Parts::path), [`query`](Parts::query) and
/// [`header`](Parts::header) look into the bytes that were received instead.
///
/// # Examples
/// A handler is tested without a socket, by a request that the test makes:
/// ```
/// use ramie_http::{Request, Router, get};
///
/// let router = Router::new().route("/hello", get(|| "Hello, world!\n"));
/// let response = router.call(Request::get("/hello"));
/// assert_eq!(response.status(), 200);
/// ```
#[derive(Debug)]
pub struct Request {
    // Elsewhere, because a request is moved from call to call on the stack of its connection, which
    // an idle connection keeps.
    parts: PartsBox,
    body: Body,
}

/// A request without its body.
pub struct Parts {
    /// The head that was received. If the program made the request, only its method and its version
    /// have a meaning, and `uri` and `headers` are set.
    head: Head,
    /// Built from the head when somebody asks, unless the program has set it.
    uri: OnceLock<Box<Uri>>,
    /// As `uri`. Once the program may have changed it, it counts instead of the head.
    headers: OnceLock<Box<HeaderMap>>,
    are_headers_own: bool,
    extensions: Extensions,
    peer: Option<SocketAddr>,
    origin: Origin,
    params: RouteParams,
    /// The path of the route, or of the one of an earlier request: it is kept, because to count the
    /// references of each request would take two locked instructions.
    route: Option<Arc<str>>,
    /// The route is that of this request.
    is_routed: bool,
}

impl Parts {
    /// Those of a head that is read into them.
    pub(crate) fn new() -> Self {
        Parts {
            head: Head::new(),
            uri: OnceLock::new(),
            headers: OnceLock::new(),
            are_headers_own: false,
            extensions: Extensions::new(),
            peer: None,
            origin: Origin::default(),
            params: RouteParams::default(),
            route: None,
            is_routed: false,
        }
    }

    fn made(method: Method, uri: Uri) -> Self {
        Parts {
            head: Head { method, ..Head::new() },
            uri: Box::new(uri).into(),
            headers: Box::<HeaderMap>::default().into(),
            are_headers_own: true,
            ..Parts::new()
        }
    }

    /// The head that was received.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// The head, which is to be read into parts that have none yet.
    pub(crate) fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    /// Forgets everything but the method and the version, and keeps memory for the next head.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.head.forget();
        self.peer = None;
        self.origin = Origin::default();
        self.params.forget();
        self.is_routed = false;
        let is_built = self.uri.get().is_some() || self.headers.get().is_some();
        if is_built || !self.extensions.is_empty() {
            self.forget_values();
        }
    }

    /// Forgets the values that few requests have.
    #[inline(never)]
    fn forget_values(&mut self) {
        self.uri.take();
        self.headers.take();
        self.are_headers_own = false;
        self.extensions = Extensions::new();
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// The version of HTTP.
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// The target, as the client wrote it.
    pub fn uri(&self) -> &Uri {
        self.uri.get_or_init(|| Box::new(self.head.to_uri()))
    }

    /// The path of the target, with its escapes; `/` if it is empty.
    pub fn path(&self) -> &str {
        path_of(&self.uri, &self.head)
    }

    /// The query of the target, with its escapes: all behind the `?`.
    pub fn query(&self) -> Option<&str> {
        self.uri.get().map_or_else(|| self.head.query(), |uri| uri.query())
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        self.headers.get_or_init(|| Box::new(self.head.to_map()))
    }

    /// All headers, to be changed.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers();
        self.are_headers_own = true;
        self.headers.get_mut().expect("the line above has built them")
    }

    /// The value of the first header of this name, whose case does not matter. It is looked up in
    /// the bytes of the head, without building the map of [`headers`](Self::headers).
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        match self.are_headers_own {
            false => self.head.field(name),
            true => self.headers().get(name).map(HeaderValue::as_bytes),
        }
    }

    /// As [`header`](Self::header), if the value is text.
    pub fn header_str(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.header(name)?).ok()
    }

    /// Values that middleware leaves for handlers, by type.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Values that middleware leaves for handlers, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The address of the client, or of the proxy before the server, as
    /// [`extract::Peer`](crate::extract::Peer) says; none for Unix sockets and for requests that
    /// the program has made.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The decoded value of a parameter of the route, such as `id` of `/users/{id}`.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// All parameters of the route, decoded, in the order of the route.
    pub fn params(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.params.iter()
    }

    /// The path of the route that matches the request, such as `/users/{id}`; none before the
    /// router has found it.
    pub(crate) fn route(&self) -> Option<&Arc<str>> {
        self.route.as_ref().filter(|_| self.is_routed)
    }

    pub(crate) fn set_route(&mut self, route: &Arc<str>) {
        self.is_routed = true;
        if !self.route.as_ref().is_some_and(|own| Arc::ptr_eq(own, route)) {
            self.route = Some(Arc::clone(route));
        }
    }

    pub(crate) fn set_peer(&mut self, peer: Option<SocketAddr>) {
        self.peer = peer;
    }

    /// Where the request was received.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    /// The path, and the parameters that the router finds in it.
    #[inline]
    pub(crate) fn path_and_params(&mut self) -> (&str, &mut RouteParams) {
        (path_of(&self.uri, &self.head), &mut self.params)
    }

    /// The host and the port of the target, if that is a whole URI.
    pub(crate) fn authority_of_target(&self) -> Option<&str> {
        match self.uri.get() {
            None => self.head.authority(),
            Some(uri) => uri.authority().map(|authority| authority.as_str()),
        }
    }
}

/// As the methods show it, because the fields keep memory of earlier requests.
impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("method", self.method())
            .field("uri", self.uri())
            .field("version", &self.version())
            .field("headers", self.headers())
            .field("peer", &self.peer)
            .field("route", &self.route())
            .field("params", &self.params)
            .field("extensions", &self.extensions)
            .finish()
    }
}

#[inline]
fn path_of<'a>(uri: &'a OnceLock<Box<Uri>>, head: &'a Head) -> &'a str {
    uri.get().map_or_else(|| head.path(), |uri| uri.path())
}

impl Request {
    /// A request that was not received, for tests and for calls of a router.
    ///
    /// # Panics
    /// If `target` cannot be parsed as a URI. (`/path?query` can.)
    #[track_caller]
    pub fn new(method: Method, target: &str) -> Self {
        let uri = match target.parse() {
            Ok(uri) => uri,
            // Not in a closure, which would be named as the caller.
            Err(error) => panic!("{target:?} is no URI: {error}"),
        };
        Request { parts: PartsBox::new(Parts::made(method, uri)), body: Body::empty() }
    }

    /// A GET of `target`.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn get(target: &str) -> Self {
        Request::new(Method::GET, target)
    }

    /// A POST to `target`.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn post(target: &str, body: impl Into<Body>) -> Self {
        Request::new(Method::POST, target).with_body(body)
    }

    /// Adds a header.
    ///
    /// # Panics
    /// If the name or the value cannot be one of a header.
    #[must_use]
    #[track_caller]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("the name of a header");
        let value: HeaderValue = value.parse().expect("the value of a header");
        self.headers_mut().append(name, value);
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn received(parts: PartsBox, body: Body) -> Self {
        Request { parts, body }
    }

    /// The head.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The head, to be changed.
    pub fn parts_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The body, to be read.
    pub fn body_mut(&mut self) -> &mut Body {
        &mut self.body
    }

    /// The body alone.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// The head and the body apart.
    pub fn into_parts(self) -> (Parts, Body) {
        (self.parts.into_parts(), self.body)
    }

    /// A request of a head and a body.
    pub fn from_parts(parts: Parts, body: Body) -> Self {
        Request { parts: PartsBox::new(parts), body }
    }
}

/// The head's methods are those of the request, too.
impl Deref for Request {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

impl<B: Into<Body>> From<http::Request<B>> for Request {
    fn from(request: http::Request<B>) -> Self {
        let (head, body) = request.into_parts();
        let mut parts = Parts::made(head.method, head.uri);
        parts.head.version = head.version;
        *parts.headers_mut() = head.headers;
        parts.extensions = head.extensions;
        Request { parts: PartsBox::new(parts), body: body.into() }
    }
}

/// The address of the client, the parameters of the route and the connection are left out. So
/// [`request_timeout`](crate::middleware::request_timeout()) has no effect on a request that is
/// made of this one.
impl From<Request> for http::Request<Body> {
    fn from(request: Request) -> Self {
        let (mut parts, body) = request.into_parts();
        let mut made = http::Request::new(body);
        parts.uri();
        *made.uri_mut() = parts.uri.take().map_or_else(Uri::default, |uri| *uri);
        *made.headers_mut() = std::mem::take(parts.headers_mut());
        *made.method_mut() = parts.head.method;
        *made.version_mut() = parts.head.version;
        *made.extensions_mut() = parts.extensions;
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Router, get, h1::head, limits::Limits};

    fn received(text: &str) -> Request {
        let mut parts = PartsBox::take();
        head::parse(text.as_bytes(), &Limits::default(), parts.head_mut()).unwrap();
        Request::received(parts, Body::empty())
    }

    #[test]
    fn a_received_head_reads_as_the_types_of_http_do() {
        for (target, path, query) in [
            ("/a/b?c=d", "/a/b", Some("c=d")),
            ("/", "/", None),
            ("/?", "/", Some("")),
            ("http://h:1/x?y", "/x", Some("y")),
            ("http://h", "/", None),
            ("http://h?y", "/", Some("y")),
        ] {
            let request =
                received(&format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\n\r\n"));
            assert_eq!((request.path(), request.query()), (path, query), "{target}");
            assert_eq!((request.uri().path(), request.uri().query()), (path, query), "{target}");
            assert_eq!(request.header("X-a"), Some(&b"1"[..]));
            assert_eq!(request.headers().get_all("x-a").iter().count(), 2);
            assert_eq!(request.header("y"), None);
        }
        let options = received("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((options.path(), options.uri().path()), ("*", "*"));
    }

    #[test]
    fn changed_headers_count_instead_of_the_head() {
        let mut request = received("GET / HTTP/1.0\r\nA: b\r\n\r\n");
        request.headers_mut().insert("a", HeaderValue::from_static("c"));
        assert_eq!(request.header("a"), Some(&b"c"[..]));
        let made = http::Request::from(request);
        assert_eq!((made.version(), made.headers()["a"].as_bytes()), (Version::HTTP_10, &b"c"[..]));
    }

    #[test]
    fn the_text_for_debugging_names_nothing_of_an_earlier_request() {
        let router = Router::new().route("/{earlier}", get(|| ()));
        let earlier = received("GET /value HTTP/1.1\r\nHost: h\r\nX-A: secret\r\n\r\n");
        drop(router.call(earlier));
        let text = format!("{:?}", received("GET /now?a HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(
            text,
            "Request { parts: Parts { method: GET, uri: /now?a, version: HTTP/1.1, headers: \
             {\"host\": \"h\"}, peer: None, route: None, params: {}, extensions: {} }, \
             body: Body { length: Some(0), .. } }"
        );
    }
}
