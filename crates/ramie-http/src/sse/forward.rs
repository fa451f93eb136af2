//! Sends events to the client, on the fiber of the connection.
//!
//! A closure that makes events runs on a second fiber, because a fiber that waits inside of the
//! closure could not send comments meanwhile. The second fiber belongs to a scope, so the response
//! ends only after it: nothing of a request runs on behind its response.

use std::{
    io::{self, Write},
    panic::resume_unwind,
    time::Duration,
};

use ramie::{
    cancel,
    channel::{Receiver, RecvTimeoutError, bounded},
    fiber,
};

use super::{Produce, SseSender};
use crate::body::BodyWriter;

/// Events up to this size are sent at once, if they come faster than the client takes them.
const GATHERED: usize = 16 << 10;
const COMMENT: &str = ":\n\n";

/// Runs the closure, and sends its events.
pub(super) fn produce(
    produce: Produce,
    room: usize,
    keep_alive: Duration,
    out: &mut BodyWriter<'_>,
) -> io::Result<()> {
    let (sender, events) = bounded(room);
    let sender = SseSender::new(sender);
    cancel::scope(|producing| {
        fiber::scope(|fibers| {
            let builder = fiber::Builder::new().name("server-sent events".to_owned());
            let producer = builder.spawn_scoped_local(fibers, move || produce(sender))?;
            let forwarded = forward(events, keep_alive, out);
            if forwarded.is_err() {
                producing.cancel_because("the client of the events is gone");
            }
            let produced = producer.join().unwrap_or_else(|panic| resume_unwind(panic));
            forwarded.and(produced)
        })
    })
}

/// Sends events until all senders are dropped.
pub(super) fn forward(
    events: Receiver<String>,
    keep_alive: Duration,
    out: &mut BodyWriter<'_>,
) -> io::Result<()> {
    // The client learns by the head that it is connected.
    out.flush()?;
    loop {
        let mut text = match events.recv_timeout(keep_alive) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => COMMENT.to_owned(),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Cancelled) => return Err(cancelled()),
        };
        while text.len() < GATHERED
            && let Ok(event) = events.try_recv()
        {
            text.push_str(&event);
        }
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
}

/// The error of a call that was cancelled.
pub(super) fn cancelled() -> io::Error {
    match cancel::check_cancelled() {
        Err(cause) => cause.into(),
        Ok(()) => cancel::Cancelled::because("a call was cancelled").into(),
    }
}
