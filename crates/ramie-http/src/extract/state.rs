//! The state of the router.

use std::convert::Infallible;

use super::FromParts;
use crate::request::Parts;

/// The state of the router, given by [`Router::with_state`](crate::Router::with_state), or a part
/// of it ([`FromRef`]).
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
// Same name as `coroutine::State`: all servers for Rust name it so.
#[derive(Clone, Copy, Debug)]
pub struct State<T>(pub T);

impl<S, T: FromRef<S>> FromParts<S> for State<T> {
    type Rejection = Infallible;

    fn from_parts(_: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(State(T::from_ref(state)))
    }
}

/// A part of the state `S` of a router, for handlers that take no more than this part as their
/// [`State`]. Each type that is `Clone` is a part of itself.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use ramie_http::{Request, Router, extract::{FromRef, State}, get};
///
/// #[derive(Clone)]
/// struct Greeting(Arc<str>);
///
/// #[derive(Clone)]
/// struct App {
///     greeting: Greeting,
///     // and more, such as a pool of connections
/// }
///
/// impl FromRef<App> for Greeting {
///     fn from_ref(app: &App) -> Self {
///         app.greeting.clone()
///     }
/// }
///
/// let greet = |State(Greeting(text)): State<Greeting>| text.to_string();
/// let app = App { greeting: Greeting("hello".into()) };
/// let router = Router::new().route("/", get(greet)).with_state(app);
/// let response = router.call(Request::get("/"));
/// assert_eq!(response.into_body().into_bytes(10)?, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no part of the router's state `{S}`",
    note = "the type in `State` must implement `FromRef<{S}>`; the type of `Router::with_state` \
            itself does if it is `Clone`",
    note = "if another handler is wrong: `Router::<State>::new()`, with the type of the state, \
            shows which one"
)]
pub trait FromRef<S> {
    /// Makes the part, usually by a clone of a field.
    fn from_ref(state: &S) -> Self;
}

impl<S: Clone> FromRef<S> for S {
    fn from_ref(state: &S) -> S {
        state.clone()
    }
}
