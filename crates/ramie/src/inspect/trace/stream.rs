//! Traces for other processes: a thread of its own records for some seconds, and sends the trace on
//! the socket meanwhile ([`serve`](super::super::serve)).
//!
//! The thread copies the buffers at least every 20 ms, so a trace is longer than they are, and
//! this process holds no more of it than they do. If the client reads too slowly, the oldest events
//! are overwritten before they are sent; the trace says how many. One trace is taken at a time,
//! because each costs the CPU time of a copy. So that a client that reads slowly does not keep
//! others from a trace, it is disconnected [`GRACE`] after the time of its trace.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ramie_driver::sys::{self, RuntimeThread, Shutdown};

use super::gather::{FirstEvent, Gatherer};
use crate::core::{
    trace::{Recording, TraceOptions},
    worker::wake_for_recording,
};

/// The longest trace.
pub(crate) const MOST_SECONDS: u64 = 600;
/// The longest and the shortest time between two copies of the buffers. It becomes shorter while
/// buffers are more than [`FULL`] full, and longer while they are less than half as full. To wake
/// this thread and then the client costs about 30 us.
const TICKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_micros(250)];
const FULL: f64 = 0.4;
/// The number of events after which a trace takes no more. The viewer takes about a GiB for them.
const MOST_EVENTS: u64 = 8_000_000;
/// The bytes of a worker's buffer: the events of a busy worker in some milliseconds. More would
/// evict more of the program's data from the caches.
const BYTES: usize = 1024 * 1024;
/// How long a client may still take parts of a trace when its time is over.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// The thread's stack.
const STACK: usize = 256 * 1024;

/// The client that gets a trace, and the thread that sends it.
#[derive(Default)]
pub(crate) struct TraceClients {
    current: Mutex<Option<TraceClient>>,
    is_over: Arc<AtomicBool>,
}

struct TraceClient {
    /// The thread keeps it, so that the connection ends with the trace.
    socket: Weak<OwnedFd>,
    /// When the thread ends at the latest.
    end: Instant,
    thread: JoinHandle<()>,
}

/// How a part of a trace is sent to a client, until that moment.
pub(crate) type Send = fn(&OwnedFd, &[u8], Instant) -> io::Result<()>;

impl TraceClients {
    fn current(&self) -> MutexGuard<'_, Option<TraceClient>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the answer of a client that asks for a trace.
    ///
    /// # Errors
    /// Another trace is being taken, or there is no thread for it.
    pub(crate) fn begin(
        &self,
        socket: &Arc<OwnedFd>,
        time: Duration,
        send: Send,
    ) -> Result<(), String> {
        let mut current = self.current();
        if let Some(client) = current.take_if(|client| client.thread.is_finished()) {
            let _ = client.thread.join();
        }
        if let Some(other) = &*current {
            let left = other.end.saturating_duration_since(Instant::now()).as_secs() + 1;
            return Err(format!(
                "another trace of this process is being taken, which ends within {left} s; try \
                 again then"
            ));
        }
        let end = Instant::now() + time + GRACE;
        let (theirs, is_over) = (Arc::clone(socket), Arc::clone(&self.is_over));
        let record = move || {
            let _mark = RuntimeThread::enter();
            sys::block_signals();
            let mut send = |bytes: &[u8]| send(&theirs, bytes, end);
            // A client that has gone needs no trace.
            let _ = send(b"ok trace\n").and_then(|()| stream(time, &is_over, &mut send));
        };
        let builder = thread::Builder::new().name("ramie-trace".to_owned()).stack_size(STACK);
        let thread =
            builder.spawn(record).map_err(|error| format!("no thread for it ({error})"))?;
        *current = Some(TraceClient { socket: Arc::downgrade(socket), end, thread });
        Ok(())
    }

    /// Ends the trace that is being taken. Called when no further one can begin.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let Some(TraceClient { socket, thread, .. }) = self.current().take() else { return };
        // Ends a call of the thread that waits for the client.
        let _ = socket.upgrade().map(|socket| sys::shutdown(&socket, Shutdown::Both));
        thread.thread().unpark();
        let _ = thread.join();
    }
}

/// Lets the workers look for the end of a recording, and give back their buffers. Dropped behind
/// the recording.
pub(super) struct WakeInTheEnd;

impl Drop for WakeInTheEnd {
    fn drop(&mut self) {
        wake_for_recording();
    }
}

/// Records for some time, and sends the trace.
fn stream(
    time: Duration,
    is_over: &AtomicBool,
    send: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let _last = WakeInTheEnd;
    let recording = Recording::begin(TraceOptions { bytes: BYTES });
    let is_over = || is_over.load(Ordering::SeqCst);
    let mut gatherer = Gatherer::begin(&recording, "request", FirstEvent::Next, MOST_EVENTS, send)?;
    // The workers take their buffers before they answer.
    gatherer.describe_strands(is_over, send)?;
    let end = Instant::now() + time;
    let [longest, shortest] = TICKS;
    let mut tick = longest;
    while Instant::now() < end && !is_over() && !gatherer.is_full() {
        thread::park_timeout(tick.min(end.saturating_duration_since(Instant::now())));
        let fullest = gatherer.step(send)?;
        if fullest > FULL {
            tick = (tick / 2).max(shortest);
        } else if fullest < FULL / 2.0 {
            tick = (tick * 2).min(longest);
        }
    }
    gatherer.describe_strands(is_over, send)?;
    gatherer.step(send)?;
    gatherer.end(send)
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use ramie_driver::sys::SendFlags;

    use super::*;

    const TIME: Duration = Duration::from_secs(500);

    /// As a client does that takes a byte from time to time: nothing ends this but its end.
    fn send_slowly(client: &OwnedFd, _: &[u8], end: Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(Instant::now());
        sys::send(client, &left.as_secs().to_ne_bytes(), SendFlags::empty())?;
        // Until the test closes the other end, which stands for the end of the time.
        sys::wait_until_ready(client, sys::POLL_IN, left)?;
        Err(sys::Errno::TIMEDOUT.into())
    }

    #[test]
    fn a_trace_has_an_end_after_which_the_next_one_begins() {
        let clients = TraceClients::default();
        let [(ours, mut theirs), (next, _)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let [ours, next] = [ours, next].map(|socket| Arc::new(OwnedFd::from(socket)));
        clients.begin(&ours, TIME, send_slowly).unwrap();
        let (most, mut left) = ((TIME + GRACE).as_secs(), [0; 8]);
        theirs.read_exact(&mut left).unwrap();
        assert!((TIME.as_secs()..=most).contains(&u64::from_ne_bytes(left)), "{left:?}");
        let why = clients.begin(&next, TIME, send_slowly).unwrap_err();
        let seconds = why.split(' ').find_map(|word| word.parse::<u64>().ok()).expect(&why);
        assert!((TIME.as_secs()..=most).contains(&seconds), "{why}");
        drop(theirs);
        while clients.begin(&next, TIME, |_, _, _| Ok(())).is_err() {
            thread::yield_now();
        }
        clients.end();
    }
}
