//! The time of requests, instead of the server's.

use std::time::Duration;

use crate::{request::Request, response::Response, router::Next};

/// Makes middleware that replaces [`Limits::request_timeout`](crate::Limits::request_timeout) for
/// the requests that pass it, by a longer or a shorter time.
///
/// The time counts from the begin of the request, as the server's does, and ends as it does: then
/// the handler is cancelled ([which waits that ends](crate#cancellation)), and the client gets
/// 503. Of several such layers the innermost counts. The next request on the same connection has
/// the server's limit again. Over HTTP/1.1 the server looks at its connections in intervals that
/// depend on its own limits, so a handler may have up to half a second more.
///
/// A request that the program has made, for a call of the router, has no such limit, and this
/// changes nothing.
///
/// # Blocking
/// Never, but it looks the connection up under a lock that all connections share, so use it for
/// routes such as uploads, and [`Limits`](crate::Limits) for a limit that most requests have.
///
/// # Examples
/// An upload may take an hour; other requests have the limit of the server:
/// ```
/// use std::time::Duration;
/// use ramie_http::{Request, Router, get, middleware::request_timeout, put};
///
/// let uploads = Router::new()
///     .route("/{name}", put(|| "stored"))
///     .layer(request_timeout(Duration::from_secs(60 * 60)));
/// let router = Router::new().route("/", get(|| "hello")).nest("/uploads", uploads);
/// assert_eq!(router.call(Request::get("/")).status(), 200);
/// ```
pub fn request_timeout(
    limit: Duration,
) -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
    move |request, next| {
        request.origin().set_request_time(limit);
        next.call(request)
    }
}
