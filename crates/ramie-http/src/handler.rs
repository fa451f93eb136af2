//! Handlers: ordinary functions whose arguments are made of the request.

use crate::{
    extract::{FromParts, FromRequest},
    request::Request,
    response::{IntoResponse, Response},
};

/// A function that answers requests.
///
/// Its arguments are made of the request by their types ([`extract`](crate::extract)): any number
/// (up to eight) that look at the head only ([`FromParts`]), then at most one that may take the
/// whole request ([`FromRequest`]). If one cannot be made, the client gets its rejection, and the
/// function is not called. The function returns what can become a response ([`IntoResponse`]).
///
/// # Blocking
/// A handler runs on the fiber of the connection, so it may wait by the calls of `ramie` (`net`,
/// `fs`, `sync` and others), for [`Limits::request_timeout`](crate::Limits::request_timeout). A
/// call that blocks its thread, such as `std::thread::sleep`, those of `std::net` or of a database
/// in C, stops all connections of the worker, so [`ramie::blocking`] is to run it.
///
/// # Stack
/// A handler has the stack of a fiber: 256 KiB, less what the server uses, unless
/// [`stack_size`](ramie::Builder::stack_size) of the runtime or `RAMIE_STACK` (bytes) sets another
/// size. An overflow ends the process with a message.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, extract::Path, get};
///
/// fn square(Path(number): Path<u32>) -> String {
///     (number * number).to_string()
/// }
///
/// let router = Router::new().route("/squares/{number}", get(square));
/// let response = router.call(Request::get("/squares/12"));
/// assert_eq!(response.into_body().into_bytes(100)?, "144");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// An `async fn` cannot be a handler, because a future is no response:
/// ```compile_fail,E0277
/// async fn greet() -> &'static str {
///     "hello"
/// }
///
/// let router: ramie_http::Router = ramie_http::Router::new().route("/", ramie_http::get(greet));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler",
    note = "a handler is an ordinary function and must not be `async`: it runs on a fiber, so it \
            calls functions that wait, without `.await`",
    note = "it returns what implements `IntoResponse`",
    note = "one that may fail returns `Result<_, ramie_http::extract::Rejection>`, for example; \
            `?` makes a rejection of an `io::Error`, which is no response",
    note = "its arguments implement `FromParts`; the last one may implement `FromRequest` instead"
)]
pub trait Handler<Args, S>: Send + Sync + 'static {
    /// Answers a request.
    fn call(&self, request: Request, state: &S) -> Response;
}

/// The marker of handlers whose arguments all look at the head only.
#[derive(Debug)]
pub enum ByParts {}

/// The marker of handlers whose last argument takes the request.
#[derive(Debug)]
pub enum ByRequest {}

impl<F, R, S> Handler<(ByParts,), S> for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: IntoResponse,
{
    fn call(&self, _: Request, _: &S) -> Response {
        self().into_response()
    }
}

macro_rules! handler_of {
    ($($arg:ident),*; $last:ident) => {
        impl<F, R, S, $($arg,)* $last> Handler<(ByParts, $($arg,)* $last), S> for F
        where
            F: Fn($($arg,)* $last) -> R + Send + Sync + 'static,
            R: IntoResponse,
            $($arg: FromParts<S>,)*
            $last: FromParts<S>,
        {
            #[allow(non_snake_case)]
            fn call(&self, mut request: Request, state: &S) -> Response {
                $(let $arg = match $arg::from_parts(request.parts_mut(), state) {
                    Ok(arg) => arg,
                    Err(rejection) => return rejection.into_response(),
                };)*
                match $last::from_parts(request.parts_mut(), state) {
                    Ok(last) => self($($arg,)* last).into_response(),
                    Err(rejection) => rejection.into_response(),
                }
            }
        }

        impl<F, R, S, $($arg,)* $last> Handler<(ByRequest, $($arg,)* $last), S> for F
        where
            F: Fn($($arg,)* $last) -> R + Send + Sync + 'static,
            R: IntoResponse,
            $($arg: FromParts<S>,)*
            $last: FromRequest<S>,
        {
            #[allow(non_snake_case, unused_mut)]
            fn call(&self, mut request: Request, state: &S) -> Response {
                $(let $arg = match $arg::from_parts(request.parts_mut(), state) {
                    Ok(arg) => arg,
                    Err(rejection) => return rejection.into_response(),
                };)*
                match $last::from_request(request, state) {
                    Ok(last) => self($($arg,)* last).into_response(),
                    Err(rejection) => rejection.into_response(),
                }
            }
        }
    };
}

handler_of!(; A);
handler_of!(A; B);
handler_of!(A, B; C);
handler_of!(A, B, C; D);
handler_of!(A, B, C, D; E);
handler_of!(A, B, C, D, E; G);
handler_of!(A, B, C, D, E, G; H);
handler_of!(A, B, C, D, E, G, H; I);
