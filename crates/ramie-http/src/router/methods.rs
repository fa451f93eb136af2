//! The handlers of one path, by method.

use std::{fmt, sync::Arc};

use http::Method;

use super::{Layer, Next};
use crate::{handler::Handler, request::Request, response::Response};

/// A handler whose arguments are hidden.
pub(super) type BoxedHandler<S> = Arc<dyn Fn(Request, &S) -> Response + Send + Sync>;

pub(super) fn boxed<Args: 'static, S: 'static>(handler: impl Handler<Args, S>) -> BoxedHandler<S> {
    Arc::new(move |request, state| handler.call(request, state))
}

pub(super) fn with_state<S: Send + Sync + 'static>(
    handler: BoxedHandler<S>,
    state: &Arc<S>,
) -> BoxedHandler<()> {
    let state = Arc::clone(state);
    Arc::new(move |request, ()| handler(request, &state))
}

/// The handlers of one path: made by [`get`], [`post`] and so on, or [`any`].
pub struct MethodRouter<S = ()> {
    by_method: Vec<(Method, BoxedHandler<S>)>,
    any: Option<BoxedHandler<S>>,
    /// The value of Allow, made when a method is added.
    allowed: String,
}

impl<S: Send + Sync + 'static> MethodRouter<S> {
    fn new() -> Self {
        MethodRouter { by_method: Vec::new(), any: None, allowed: String::new() }
    }

    /// Adds the handler of a method.
    ///
    /// # Panics
    /// If the method has one already.
    #[must_use]
    #[track_caller]
    pub fn on<Args: 'static>(mut self, method: Method, handler: impl Handler<Args, S>) -> Self {
        // The path is known only in the router.
        let is_new = self.own(&method).is_none();
        assert!(is_new, "two handlers for {method} in the methods of one path");
        self.add(method, boxed(handler));
        self
    }

    fn add(&mut self, method: Method, handler: BoxedHandler<S>) {
        self.by_method.push((method, handler));
        let mut allowed: Vec<_> = self.by_method.iter().map(|(own, _)| own.as_str()).collect();
        if let Some(at) = allowed.iter().position(|own| *own == "GET")
            && !allowed.contains(&"HEAD")
        {
            allowed.insert(at + 1, "HEAD");
        }
        self.allowed = allowed.join(", ");
    }

    /// The handler of this method alone.
    pub(super) fn own(&self, method: &Method) -> Option<&BoxedHandler<S>> {
        self.by_method.iter().find(|(own, _)| own == method).map(|(_, handler)| handler)
    }

    #[track_caller]
    pub(super) fn merge(&mut self, path: &str, other: MethodRouter<S>) {
        for (method, handler) in other.by_method {
            let is_new = self.own(&method).is_none();
            assert!(is_new, "the path {path:?} has two handlers for {method}");
            self.add(method, handler);
        }
        if other.any.is_some() {
            assert!(self.any.is_none(), "the path {path:?} has two handlers for any method");
            self.any = other.any;
        }
    }

    fn map<T>(self, f: impl Fn(BoxedHandler<S>) -> BoxedHandler<T>) -> MethodRouter<T> {
        let by_method = self.by_method.into_iter();
        MethodRouter {
            by_method: by_method.map(|(method, handler)| (method, f(handler))).collect(),
            any: self.any.map(&f),
            allowed: self.allowed,
        }
    }

    pub(super) fn with_state(self, state: &Arc<S>) -> MethodRouter {
        self.map(|handler| with_state(handler, state))
    }

    pub(super) fn with_layers(self, layers: &[Layer]) -> Self {
        if layers.is_empty() {
            return self;
        }
        let layers: Arc<[Layer]> = layers.into();
        self.map(|handler| {
            let layers = Arc::clone(&layers);
            Arc::new(move |request, state: &S| {
                Next { layers: &layers, last: &|request| handler(request, state) }.call(request)
            })
        })
    }
}

impl MethodRouter {
    /// The handler of a method, if there is one.
    #[inline]
    pub(super) fn handler(&self, method: &Method) -> Option<&BoxedHandler<()>> {
        self.own(method).or_else(|| self.substitute(method))
    }

    /// The handler of a method that has none of its own.
    #[inline(never)]
    fn substitute(&self, method: &Method) -> Option<&BoxedHandler<()>> {
        // The connection sends no body in response to HEAD.
        let as_get = if *method == Method::HEAD { self.own(&Method::GET) } else { None };
        as_get.or(self.any.as_ref())
    }

    /// The value of Allow.
    pub(super) fn allowed(&self) -> &str {
        &self.allowed
    }
}

impl<S> fmt::Debug for MethodRouter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = if self.any.is_some() { "any" } else { "" };
        f.debug_tuple("MethodRouter").field(&self.allowed).field(&any).finish()
    }
}

/// A path whose handler answers all methods.
pub fn any<Args: 'static, S: Send + Sync + 'static>(
    handler: impl Handler<Args, S>,
) -> MethodRouter<S> {
    MethodRouter { any: Some(boxed(handler)), ..MethodRouter::new() }
}

macro_rules! methods {
    ($($name:ident $method:ident $text:literal),* $(,)?) => {
        $(
            #[doc = concat!("A path whose handler answers ", $text, ".")]
            pub fn $name<Args: 'static, S: Send + Sync + 'static>(
                handler: impl Handler<Args, S>,
            ) -> MethodRouter<S> {
                MethodRouter::new().on(Method::$method, handler)
            }
        )*

        impl<S: Send + Sync + 'static> MethodRouter<S> {
            $(
                #[doc = concat!("Adds the handler of ", $text, ".")]
                ///
                /// # Panics
                /// If there is one already.
                #[must_use]
                #[track_caller]
                pub fn $name<Args: 'static>(self, handler: impl Handler<Args, S>) -> Self {
                    self.on(Method::$method, handler)
                }
            )*
        }
    };
}

methods! {
    get GET "GET, and HEAD unless that has a handler of its own",
    head HEAD "HEAD",
    post POST "POST",
    put PUT "PUT",
    patch PATCH "PATCH",
    delete DELETE "DELETE",
    options OPTIONS "OPTIONS",
}
