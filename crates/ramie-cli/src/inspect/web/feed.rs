//! The feed: asks the process in intervals, as long as somebody looks, and hands its views to the
//! streams of events.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie::sync::{
    Event,
    watch::{Receiver, Sender},
};

use super::response;
use crate::{
    dump,
    failure::Failure,
    inspect::{
        source::{self, Source},
        view::visible,
    },
};

/// The most streams of events at a time.
pub(super) const MOST_STREAMS: usize = 8;
/// The time between two looks whether the process is there, while nobody looks at the page.
const LOOK: Duration = Duration::from_secs(1);

/// The last event, and the streams that wait for the next.
pub(super) struct Feed {
    pid: u32,
    events: Sender<Arc<str>>,
    streams: AtomicUsize,
    is_wanted: Event,
}

/// A stream of events, which counts as long as this exists.
pub(super) struct Stream<'a> {
    feed: &'a Feed,
    pub(super) events: Receiver<Arc<str>>,
}

impl Feed {
    pub(super) fn new(pid: u32) -> Feed {
        let events = Sender::new(Arc::from(""));
        Feed { pid, events, streams: AtomicUsize::new(0), is_wanted: Event::new() }
    }

    /// Begins a stream, unless there are many.
    pub(super) fn subscribe(&self) -> Option<Stream<'_>> {
        let begin = |streams: usize| (streams < MOST_STREAMS).then_some(streams + 1);
        // Relaxed: a count alone.
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()?;
        let events = self.events.subscribe();
        self.is_wanted.set();
        Some(Stream { feed: self, events })
    }

    /// Asks the process in intervals; returns why that has ended. A problem that may pass is sent
    /// as an event.
    pub(super) fn run(&self, mut source: Source, interval: Duration) -> Failure {
        loop {
            if self.streams.load(Ordering::Relaxed) == 0 {
                self.is_wanted.reset();
                // The last view would be old when the next stream begins.
                self.events.send_replace(Arc::from(""));
                // A stream that has begun in between has set the event before; look once more.
                if self.streams.load(Ordering::Relaxed) == 0 {
                    match self.is_wanted.wait_timeout(LOOK) {
                        Err(stopped) => return Failure::other(stopped.to_string()),
                        Ok(_) if self.has_ended() => return source::ended(self.pid),
                        Ok(_) => continue,
                    }
                }
            }
            let (asked, returned) = ramie::blocking(move || (source.view(), source));
            source = returned;
            match asked {
                Ok(view) => {
                    let json = serde_json::to_string(&view).unwrap_or_default();
                    self.send("view", &json);
                }
                Err(_) if self.has_ended() => {
                    let failure = source::ended(self.pid);
                    self.send("ended", &failure.to_string());
                    return failure;
                }
                // In one line, because a line break would end the data of an event.
                Err(failure) => self.send("problem", &visible(&failure.to_string())),
            }
            if ramie::cancel::check_cancelled().is_err() {
                return Failure::other("stopped");
            }
            ramie::fiber::sleep(interval);
        }
    }

    fn has_ended(&self) -> bool {
        dump::command_of(self.pid).is_none()
    }

    fn send(&self, name: &str, data: &str) {
        self.events.send_replace(Arc::from(response::event(name, data)));
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.feed.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
