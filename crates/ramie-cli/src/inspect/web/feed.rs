//! The feed: asks the process in intervals, as long as somebody looks, and hands its views to the
//! streams of events.

use std::{
    io,
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
use ramie_http::sse::{SseEvent, SseSender};

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
    newest: Sender<Newest>,
    streams: AtomicUsize,
    is_wanted: Event,
}

#[derive(Clone, Default)]
struct Newest {
    event: Option<SseEvent>,
    /// No event follows.
    is_last: bool,
}

/// A stream of events, which counts as long as this exists.
pub(super) struct Stream {
    feed: Arc<Feed>,
    newest: Receiver<Newest>,
}

impl Feed {
    pub(super) fn new(pid: u32) -> Feed {
        let newest = Sender::new(Newest::default());
        Feed { pid, newest, streams: AtomicUsize::new(0), is_wanted: Event::new() }
    }

    /// Begins a stream, unless there are many.
    pub(super) fn subscribe(self: &Arc<Self>) -> Option<Stream> {
        let begin = |streams: usize| (streams < MOST_STREAMS).then_some(streams + 1);
        // Relaxed: a count alone.
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()?;
        let newest = self.newest.subscribe();
        self.is_wanted.set();
        Some(Stream { feed: Arc::clone(self), newest })
    }

    /// Asks the process in intervals; returns why that has ended, and ends the streams. A problem
    /// that may pass is sent as an event.
    pub(super) fn run(&self, source: Source, interval: Duration) -> Failure {
        let failure = self.ask(source, interval);
        self.newest.send_modify(|newest| newest.is_last = true);
        failure
    }

    fn ask(&self, mut source: Source, interval: Duration) -> Failure {
        loop {
            if self.streams.load(Ordering::Relaxed) == 0 {
                self.is_wanted.reset();
                // The last view would be old when the next stream begins.
                self.newest.send_replace(Newest::default());
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
        let event = Some(SseEvent::new(data).with_name(name));
        self.newest.send_replace(Newest { event, is_last: false });
    }
}

impl Stream {
    /// Sends the newest event whenever there is one, until the feed ends.
    pub(super) fn forward(&mut self, client: &SseSender) -> io::Result<()> {
        loop {
            let Newest { event, is_last } = self.newest.borrow_and_update().clone();
            if let Some(event) = event {
                client.send(event)?;
            }
            if is_last {
                return Ok(());
            }
            self.newest.changed().map_err(io::Error::other)?;
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.feed.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
