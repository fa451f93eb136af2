//! Where a client that connects again has lost its connection.

use http::StatusCode;

use crate::{
    extract::{FromParts, Rejection},
    request::Parts,
};

/// The id of the last event that a client has seen before it lost its connection: the header
/// `Last-Event-ID`. A client that connects for the first time sends none, so handlers usually take
/// an `Option<LastEventId>`.
///
/// # Errors
/// As an argument of a handler: 400 if there is none, or it is empty or not UTF-8.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get, sse::{LastEventId, Sse, SseEvent}};
///
/// fn numbers(last: Option<LastEventId>) -> Sse {
///     let next = last.and_then(|last| last.0.parse().ok()).map_or(0, |last: u32| last + 1);
///     let event = |n: u32| SseEvent::new(n.to_string()).with_id(n.to_string());
///     Sse::from_events((next..5).map(event))
/// }
///
/// let router = Router::new().route("/", get(numbers));
/// let response = router.call(Request::get("/").with_header("last-event-id", "3"));
/// assert_eq!(response.into_body().into_bytes(100)?, "id: 4\ndata: 4\n\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastEventId(pub String);

impl<S> FromParts<S> for LastEventId {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let id = parts.header_str("last-event-id").filter(|id| !id.is_empty());
        id.map(|id| LastEventId(id.to_owned())).ok_or_else(|| {
            Rejection::new(StatusCode::BAD_REQUEST, "the request has no Last-Event-ID")
        })
    }
}
