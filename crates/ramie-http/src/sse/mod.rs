//! Server-sent events: a response that goes on, which browsers read by `EventSource`
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! [`Sse`] is the response, made of an iterator, of a closure or of a channel. A handler that
//! resumes where a client has lost its connection takes an `Option<`[`LastEventId`]`>`.

mod event;
mod forward;
mod last_event_id;
mod sender;

use std::{fmt, io, time::Duration};

use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use ramie::channel::{Receiver, bounded};

pub use self::{event::SseEvent, last_event_id::LastEventId, sender::SseSender};
use crate::{
    body::Body,
    response::{IntoResponse, Response},
};

/// How long nothing may be sent, by default, before a comment is. Many proxies close a connection
/// that is silent for 30 or 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many events may wait for the client, by default.
const ROOM: usize = 16;

/// A response of server-sent events.
///
/// The response goes on until its events end, the client goes away or the time of a stop
/// ([`Server::grace`](crate::Server::grace)) is over. Each event is sent at once. After 15 seconds
/// without one, a comment is sent, which clients ignore, so that proxies keep the connection open.
///
/// # Cancellation
/// When the client goes away, the waits of the closure or the iterator are cancelled, and further
/// sends fail. So wait by calls that are cancel points, such as those of [`ramie::channel`]: a
/// closure that waits in `recv` of [`ramie::sync::mpsc`], which is none, keeps the connection until
/// the next value.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, get, sse::{Sse, SseEvent}};
///
/// let count = || Sse::new(|events| {
///     for number in 1..=2 {
///         events.send(SseEvent::new(format!("number {number}")).with_id(number.to_string()))?;
///     }
///     Ok(())
/// });
/// let response = Router::new().route("/", get(count)).call(Request::get("/"));
/// assert_eq!(response.headers()["content-type"], "text/event-stream");
/// let body = response.into_body().into_bytes(100)?;
/// assert_eq!(body, "id: 1\ndata: number 1\n\nid: 2\ndata: number 2\n\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Sse {
    source: EventSource,
    keep_alive: Duration,
}

/// Sends events, on a fiber of its own.
type Produce = Box<dyn FnOnce(SseSender) -> io::Result<()> + Send>;

/// Where the events come from.
enum EventSource {
    Closure(Produce),
    /// The text of events.
    Channel(Receiver<String>),
}

impl Sse {
    /// The events that a closure sends. It runs on a fiber of its own, so that comments are sent
    /// while it waits. The response ends when the closure has returned and all clones of its sender
    /// are dropped.
    ///
    /// If the closure returns an error or panics, the connection is closed, so that the client
    /// connects again.
    pub fn new(produce: impl FnOnce(SseSender) -> io::Result<()> + Send + 'static) -> Self {
        Sse::of(EventSource::Closure(Box::new(produce)))
    }

    /// The events that an iterator returns. It runs as the closure of [`new`](Self::new) does, so
    /// it may wait for each event.
    ///
    /// # Examples
    /// ```
    /// use ramie_http::{IntoResponse, sse::Sse};
    ///
    /// let response = Sse::from_events(["one", "two"]).into_response();
    /// assert_eq!(response.into_body().into_bytes(100)?, "data: one\n\ndata: two\n\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_events<E>(events: E) -> Self
    where
        E: IntoIterator<Item: Into<SseEvent>> + Send + 'static,
    {
        Sse::new(move |sender| events.into_iter().try_for_each(|event| sender.send(event)))
    }

    /// A response, and the sender of its events, for one place that sends to many clients. It needs
    /// no fiber beside that of the connection. The response ends when all clones of the sender are
    /// dropped.
    ///
    /// # Examples
    /// ```
    /// use ramie_http::{IntoResponse, sse::Sse};
    ///
    /// let (sender, events) = Sse::channel();
    /// sender.try_send("one")?;
    /// drop(sender);
    /// let response = events.into_response();
    /// assert_eq!(response.into_body().into_bytes(100)?, "data: one\n\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn channel() -> (SseSender, Self) {
        let (sender, events) = bounded(ROOM);
        (SseSender::new(sender), Sse::of(EventSource::Channel(events)))
    }

    fn of(source: EventSource) -> Self {
        Sse { source, keep_alive: KEEP_ALIVE }
    }

    /// Sets after how long without an event a comment is sent; 15 seconds by default.
    /// [`Duration::MAX`] sends none.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval;
        self
    }
}

impl IntoResponse for Sse {
    fn into_response(self) -> Response {
        let Sse { source, keep_alive } = self;
        let mut response = Response::new(Body::from_writer(move |out| match source {
            EventSource::Channel(events) => forward::forward(events, keep_alive, out),
            EventSource::Closure(produce) => forward::produce(produce, ROOM, keep_alive, out),
        }));
        for (name, value) in [
            (CONTENT_TYPE, "text/event-stream"),
            (CACHE_CONTROL, "no-cache"),
            // So nginx does not keep events back.
            (HeaderName::from_static("x-accel-buffering"), "no"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl fmt::Debug for Sse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sse").field("keep_alive", &self.keep_alive).finish_non_exhaustive()
    }
}
