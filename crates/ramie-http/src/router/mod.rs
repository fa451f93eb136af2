//! From the path and the method of a request to its handler.

mod foreign;
mod literals;
mod methods;

use std::{fmt, sync::Arc};

use http::{Method, StatusCode};

pub use self::methods::{MethodRouter, any, delete, get, head, options, patch, post, put};
use self::{literals::Literals, methods::BoxedHandler};
use crate::{
    handler::Handler,
    params::RouteParams,
    request::Request,
    response::{IntoResponse, Response, is_of_http, method_not_allowed},
};

/// Chooses the handler of a request by its path and its method.
///
/// A path may have parameters: `/users/{id}` matches one segment, `/files/{*path}` all that
/// follows. Literal segments precede parameters. A path that no route matches goes to the fallback
/// (404); a method that the route lacks gets 405 with `Allow`, or 501 if it is neither one of HTTP
/// nor one of another route. A route with GET answers HEAD, too.
/// Paths match as they are: `/a` and `/a/` are two, and `//` and `..` have no meaning.
///
/// `S` is the type of the state that handlers take as [`State`](crate::extract::State). A router
/// whose handlers have a state can be called once it has got one
/// ([`with_state`](Self::with_state)).
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, StatusCode, extract::Path, get};
///
/// let users = Router::new()
///     .route("/", get(|| "all users"))
///     .route("/{id}", get(|Path(id): Path<u64>| format!("user {id}")).delete(|| "gone"));
/// let no_page = || (StatusCode::NOT_FOUND, "there is no such page");
/// let router = Router::new().nest("/users", users).fallback(no_page);
///
/// assert_eq!(router.call(Request::get("/users/7")).status(), StatusCode::OK);
/// let post = router.call(Request::post("/users/7", ""));
/// assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
/// assert_eq!(post.headers()["allow"], "GET, HEAD, DELETE");
/// ```
pub struct Router<S = ()> {
    paths: Vec<(Arc<str>, MethodRouter<S>)>,
    /// All paths, with their places in `paths`.
    table: matchit::Router<usize>,
    literals: Literals,
    fallback: BoxedHandler<S>,
    layers: Vec<Layer>,
}

/// Middleware: a function around all that is behind it.
type Layer = Arc<dyn Fn(Request, Next<'_>) -> Response + Send + Sync>;

// Same name as `ramie_coro::effect::Next`: the usual term for what a middleware calls.
/// What is behind a middleware: the next one, or the handler.
pub struct Next<'a> {
    layers: &'a [Layer],
    last: &'a dyn Fn(Request) -> Response,
}

impl Next<'_> {
    /// Hands the request on.
    pub fn call(self, request: Request) -> Response {
        match self.layers.split_last() {
            Some((layer, layers)) => layer(request, Next { layers, last: self.last }),
            None => (self.last)(request),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

/// A function that middleware leaves in the extensions of a request, to be called with the path of
/// the route before the handler is called.
#[cfg(feature = "tracing")]
#[derive(Clone)]
pub(crate) struct RouteWatch(Arc<dyn Fn(&str) + Send + Sync>);

#[cfg(feature = "tracing")]
impl RouteWatch {
    pub(crate) fn new(watch: impl Fn(&str) + Send + Sync + 'static) -> Self {
        RouteWatch(Arc::new(watch))
    }
}

impl<S: Send + Sync + 'static> Default for Router<S> {
    fn default() -> Self {
        Router::new()
    }
}

impl<S: Send + Sync + 'static> Router<S> {
    /// A router without routes: all requests get 404.
    pub fn new() -> Self {
        let fallback = methods::boxed(|| StatusCode::NOT_FOUND);
        Router {
            paths: Vec::new(),
            table: matchit::Router::new(),
            literals: Literals::default(),
            fallback,
            layers: Vec::new(),
        }
    }

    /// Adds a route. If the path is there already, the methods are merged.
    ///
    /// # Panics
    /// If the path does not begin with `/`, has a malformed parameter, or conflicts with another
    /// path, such as `/{a}` with `/{b}`; if a method has a handler already.
    ///
    /// If a segment begins with `:` or `*`, or is `{name...}` or `{$}`, because other routers give
    /// these a meaning. Here, `{name}` is one segment, and `{*name}` is all that follows.
    #[must_use]
    #[track_caller]
    pub fn route(mut self, path: &str, methods: MethodRouter<S>) -> Self {
        assert!(path.starts_with('/'), "the path of a route begins with /, unlike {path:?}");
        foreign::refuse(path);
        if let Some((_, own)) = self.paths.iter_mut().find(|(own, _)| **own == *path) {
            own.merge(path, methods);
            return self;
        }
        if let Err(error) = self.table.insert(path, self.paths.len()) {
            panic!("the path {path:?} cannot be a route: {error}");
        }
        self.literals.add(path, self.paths.len());
        self.paths.push((path.into(), methods));
        self
    }

    /// Adds all routes of another router behind a prefix. The other's middleware stays around its
    /// routes; its fallback is dropped. Handlers see the whole path. The other's route `/` becomes
    /// the prefix without a slash: behind `/users` it matches `/users`, and not `/users/`.
    ///
    /// The other's middleware is called if one of its routes and the method match: 404 and 405 come
    /// from the outer router. So a log, or answers to OPTIONS, belong to the outermost router. Both
    /// routers need the same state, so one whose state is another gets it
    /// ([`with_state`](Self::with_state)) before.
    ///
    /// # Panics
    /// As [`route`](Self::route), and if the prefix is empty or ends with `/`:
    /// [`merge`](Self::merge) adds routes without a prefix.
    #[must_use]
    #[track_caller]
    pub fn nest(mut self, prefix: &str, router: Router<S>) -> Self {
        let is_of_root = matches!(prefix, "" | "/");
        assert!(!is_of_root, "{prefix:?} is no prefix: use `merge` to add routes without a prefix");
        assert!(prefix.starts_with('/'), "the prefix {prefix:?} must begin with /");
        assert!(!prefix.ends_with('/'), "the prefix {prefix:?} must not end with /");
        foreign::refuse(prefix);
        for (path, methods) in router.paths {
            let whole = if &*path == "/" { prefix.to_owned() } else { format!("{prefix}{path}") };
            self = self.route(&whole, methods.with_layers(&router.layers));
        }
        self
    }

    /// Adds all routes of another router, as [`nest`](Self::nest) does, but without a prefix.
    ///
    /// # Panics
    /// As [`route`](Self::route).
    #[must_use]
    #[track_caller]
    pub fn merge(mut self, router: Router<S>) -> Self {
        for (path, methods) in router.paths {
            self = self.route(&path, methods.with_layers(&router.layers));
        }
        self
    }

    /// Answers what no route matches, instead of 404.
    #[must_use]
    pub fn fallback<Args: 'static>(mut self, handler: impl Handler<Args, S>) -> Self {
        self.fallback = methods::boxed(handler);
        self
    }

    /// Puts a function around all routes and the fallback; that of the last call is the outermost.
    /// Unlike in axum, routes that are added later are inside of it, too. A route gets middleware
    /// of its own in a router that has only this route ([`merge`](Self::merge)).
    ///
    /// # Examples
    /// ```
    /// use ramie_http::{Next, Request, Response, Router, get};
    ///
    /// fn with_server(request: Request, next: Next<'_>) -> Response {
    ///     let mut response = next.call(request);
    ///     response.headers_mut().insert("server", "ramie".try_into().unwrap());
    ///     response
    /// }
    ///
    /// let router = Router::new().route("/", get(|| "hello")).layer(with_server);
    /// assert_eq!(router.call(Request::get("/")).headers()["server"], "ramie");
    /// ```
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static,
    ) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Gives the handlers their state.
    #[must_use]
    pub fn with_state(self, state: S) -> Router {
        let state = Arc::new(state);
        let paths = self.paths.into_iter();
        Router {
            paths: paths.map(|(path, methods)| (path, methods.with_state(&state))).collect(),
            table: self.table,
            literals: self.literals,
            fallback: methods::with_state(self.fallback, &state),
            layers: self.layers,
        }
    }
}

impl Router {
    /// Answers a request, as a server does, but without a socket. A panic of a handler is not
    /// caught.
    ///
    /// # Blocking
    /// As long as the handler waits.
    pub fn call(&self, request: Request) -> Response {
        if self.layers.is_empty() {
            return self.dispatch(request);
        }
        Next { layers: &self.layers, last: &|request| self.dispatch(request) }.call(request)
    }

    /// Finds the handler of a request, and calls it.
    #[inline]
    fn dispatch(&self, mut request: Request) -> Response {
        match self.find(&mut request) {
            Ok(handler) => handler(request, &()),
            Err(why) => self.refuse(request.method(), why),
        }
    }

    /// The response without a handler: 405, or 501 for a method that neither HTTP nor a route has.
    #[cold]
    #[inline(never)]
    fn refuse(&self, method: &Method, why: NoHandler<'_>) -> Response {
        match why {
            NoHandler::OfMethod(methods) => {
                let is_of = |(_, other): &(_, MethodRouter)| other.own(method).is_some();
                match is_of_http(method) || self.paths.iter().any(is_of) {
                    true => method_not_allowed(methods.allowed()),
                    false => StatusCode::NOT_IMPLEMENTED.into_response(),
                }
            }
            NoHandler::NotUtf8 => {
                (StatusCode::BAD_REQUEST, "the path is not UTF-8\n").into_response()
            }
        }
    }

    /// The handler of a request, which may be the fallback. Not inlined, because the handler runs
    /// on the stack above this: an idle connection keeps as much of its stack as its handlers have
    /// used.
    #[inline(never)]
    fn find(&self, request: &mut Request) -> Result<&BoxedHandler<()>, NoHandler<'_>> {
        let (path, params) = request.path_and_params();
        let at = match self.literals.find(path) {
            Some(at) => at,
            None => match self.find_with_params(path, params)? {
                Some(at) => at,
                None => return Ok(&self.fallback),
            },
        };
        let (route, methods) = &self.paths[at];
        request.set_route(route);
        #[cfg(feature = "tracing")]
        if let Some(RouteWatch(watch)) = request.extensions_mut().remove() {
            watch(route);
        }
        methods.handler(request.method()).ok_or(NoHandler::OfMethod(methods))
    }

    /// Not inlined, because the table has a large frame.
    #[inline(never)]
    fn find_with_params(
        &self,
        path: &str,
        params: &mut RouteParams,
    ) -> Result<Option<usize>, NoHandler<'static>> {
        let Ok(found) = self.table.at(path) else { return Ok(None) };
        if !found.params.is_empty() {
            // A handler of another router may have handed the request on.
            params.forget();
            if !found.params.iter().all(|(name, value)| params.push(name, value)) {
                return Err(NoHandler::NotUtf8);
            }
        }
        Ok(Some(*found.value))
    }
}

/// Why a request has no handler.
enum NoHandler<'a> {
    /// The route lacks the method.
    OfMethod(&'a MethodRouter),
    NotUtf8,
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.paths.iter().map(|(path, methods)| (path, methods))).finish()
    }
}
