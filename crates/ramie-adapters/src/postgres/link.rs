//! The socket of a connection, and the two ways of waiting for it.
//!
//! # Protocol
//! The stream that tokio-postgres reads and writes (`DrivenStream`) and the strand of a call share
//! a [`Link`]. Its mode is set at the start of each call:
//!
//! | mode | calls | a poll that would wait | the waiting strand |
//! |---|---|---|---|
//! | helper | `run`, the fiber of `connect`, signing in | tries the system call, then registers its waker with `ramie_futures::Io` | a helper fiber, which wakes the future |
//! | own | `query` and the other plain calls | returns `Pending` and notes its direction here; a write is collected, or tries the system call | the strand of the call, in [`wait`](Drive::wait), between two polls |
//!
//! In own mode nothing but the socket and the two futures of a call wakes these futures, so the
//! strand polls both until neither is woken, and then makes one receive that parks. The bytes, the
//! end of the stream, or the error stay here until the next `poll_read` takes them. So the strand
//! never parks inside a poll, where the code of the crates around the stream may have set
//! thread-locals.
//!
//! *Collected writes.* Until the first `wait` of a call, small writes are collected if the last
//! read found no bytes, because then the strand will probably wait. `wait` sends the collected
//! bytes by an op before it receives, so the ring submits the sends of many connections together.
//! All other writes of own mode try the system call: large ones, those after the first `wait`, and
//! those of the last poll of a call. They never overtake collected bytes. If the socket has no room
//! for all collected bytes, the rest stays here, and the call may end or change its mode before it
//! is sent: the next `wait`, or the next flush in helper mode, sends it first.
//!
//! - If a write wants to continue, the strand waits until the socket can be read or written,
//!   because the server may stop reading until its answer is taken.
//! - If a write fails, `poll_write` first looks for bytes to read, because the server may have sent
//!   the reason before it closed the connection. It does so once: if the next poll reads nothing,
//!   because a stream of rows holds back the connection, the write fails.
//! - *The race to fear* is a future that waits for something else while the strand waits for the
//!   socket. If no poll has asked for bytes, `wait` returns `false` and the call continues in
//!   helper mode: a stream of rows of an earlier `run` then holds back the connection, until
//!   another strand takes its rows.
//!
//! The connection may move to another worker between two calls, but only one strand uses it at a
//! time. So the lock below is never contended, and it is not held across a wait.

use std::{
    io::{self, ErrorKind, Read},
    ops::Range,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use ramie::{
    cancel::Cancelled,
    ring::{self, PollFlags},
};
use ramie_futures::Socket;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::ReadBuf;

#[cfg(test)]
mod tests;

/// The same as the read buffer of tokio-postgres.
const BUFFER_BYTES: usize = 8 * 1024;

/// The strand's view of a connection's socket.
pub(super) trait Drive: Send + Sync {
    /// Chooses the mode for the polls that follow.
    fn set_own(&self, is_own: bool);

    /// Lets the writes that follow try the system call, because no `wait` may follow.
    fn send_at_once(&self);

    /// Sends the collected bytes, and parks until the socket has made progress that the last polls
    /// wanted. Returns `false` at once if they did not want to read.
    ///
    /// A cancel point. All other errors are left to the next `poll_read`.
    fn wait(&self) -> Result<bool, Cancelled>;
}

pub(super) struct Link<S> {
    stream: Arc<S>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_own: bool,
    wants_read: bool,
    wants_write: bool,
    /// Whether writes are collected in `unsent`.
    collects: bool,
    /// The collected bytes, which go before all others.
    unsent: Vec<u8>,
    /// Why they could not be sent, for the `poll_read` that finds no more bytes of the server, or
    /// the first flush in helper mode.
    failure: Option<io::Error>,
    /// Whether a write has failed, and no poll has read since.
    is_read_due: bool,
    /// Whether the next `poll_read` tries a receive, because the last one filled its buffer or the
    /// socket was found ready.
    may_have_more: bool,
    buffer: Vec<u8>,
    /// The part of the buffer that no `poll_read` has taken yet.
    received: Range<usize>,
    /// The end of the stream, or an error, for the `poll_read` after those bytes.
    end: Option<io::Result<()>>,
}

impl State {
    fn note_received(&mut self, outcome: io::Result<usize>) {
        match outcome {
            Ok(0) => self.end = Some(Ok(())),
            Ok(count) => {
                self.received = 0..count;
                self.may_have_more = count == self.buffer.len();
            }
            Err(error) => self.end = Some(Err(error)),
        }
    }

    /// Moves received bytes, or their end, to a reader.
    fn take(&mut self, into: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        if self.received.is_empty() {
            return self.end.take();
        }
        let count = self.received.len().min(into.remaining());
        into.put_slice(&self.buffer[self.received.start..][..count]);
        self.received.start += count;
        Some(Ok(()))
    }
}

impl<S: Socket> Link<S> {
    pub(super) fn new(stream: Arc<S>) -> Self {
        Link { stream, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves no state behind that a later call could use, because it breaks the
        // connection.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls a read. `None`: in helper mode, with no bytes left here.
    pub(super) fn poll_read(&self, into: &mut ReadBuf<'_>) -> Option<Poll<io::Result<()>>> {
        let mut state = self.lock();
        state.is_read_due = false;
        let mut outcome = state.take(into);
        let tries = (state.is_own && state.may_have_more) || state.failure.is_some();
        if outcome.is_none() && tries {
            let unfilled = into.initialize_unfilled();
            let capacity = unfilled.len();
            let received = receive_now(&*self.stream, unfilled);
            state.may_have_more = matches!(received, Some(Ok(count)) if count == capacity);
            outcome = received.map(|received| received.map(|count| into.advance(count)));
        }
        if outcome.is_none() {
            outcome = state.failure.take().map(Err);
        }
        if outcome.is_none() && !state.is_own {
            return None;
        }
        state.wants_read = outcome.is_none();
        Some(outcome.map_or(Poll::Pending, Poll::Ready))
    }

    /// Polls a write. `None`: in helper mode.
    pub(super) fn poll_write(
        &self,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        let mut state = self.lock();
        if !state.is_own {
            return None;
        }
        if state.collects && state.wants_read && bytes.len() <= BUFFER_BYTES - state.unsent.len() {
            state.unsent.extend_from_slice(bytes);
            return Some(Poll::Ready(Ok(bytes.len())));
        }
        let may_send = state.unsent.is_empty();
        let sent = may_send.then(|| send_now(&*self.stream, bytes)).flatten();
        state.wants_write = sent.is_none();
        Some(match sent {
            Some(Err(_)) if !state.is_read_due && self.has_more_to_read(&mut state) => {
                state.is_read_due = true;
                // The next poll reads first.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(sent) => Poll::Ready(sent),
            None => Poll::Pending,
        })
    }

    /// Sends the collected bytes by an op that does not wait for room.
    fn send_collected<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Cancelled> {
        let mut unsent = std::mem::take(&mut state.unsent);
        drop(state);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = unless_cancelled(ring::send(&*self.stream, &unsent, flags))?;
        let mut state = self.lock();
        match sent {
            Ok(count) => drop(unsent.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                unsent.clear();
                state.failure = Some(error);
            }
        }
        state.unsent = unsent;
        Ok(state)
    }

    /// Takes the collected bytes, to send them in helper mode; empty in own mode.
    ///
    /// # Errors
    /// Own mode could not send them, and the bytes that could be read are held back.
    pub(super) fn take_unsent(&self) -> io::Result<Vec<u8>> {
        let mut state = self.lock();
        if state.is_own {
            return Ok(Vec::new());
        }
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut state.unsent)),
        }
    }

    /// Gives back the rest.
    pub(super) fn put_unsent(&self, unsent: Vec<u8>) {
        self.lock().unsent = unsent;
    }

    fn has_more_to_read(&self, state: &mut State) -> bool {
        if state.received.is_empty() && state.end.is_none() {
            state.buffer.resize(BUFFER_BYTES, 0);
            match receive_now(&*self.stream, &mut state.buffer) {
                Some(outcome) => state.note_received(outcome),
                None => return false,
            }
        }
        true
    }
}

impl<S: Socket> Drive for Link<S>
where
    for<'a> &'a S: Read,
{
    fn set_own(&self, is_own: bool) {
        let mut state = self.lock();
        state.is_own = is_own;
        state.wants_read = false;
        state.wants_write = false;
        state.collects = is_own;
    }

    fn send_at_once(&self) {
        self.lock().collects = false;
    }

    fn wait(&self) -> Result<bool, Cancelled> {
        let mut state = self.lock();
        if !state.wants_read {
            return Ok(false);
        }
        state.collects = false;
        if !state.unsent.is_empty() {
            state = self.send_collected(state)?;
            if state.failure.is_some() {
                return Ok(true);
            }
        }
        if state.wants_write || !state.unsent.is_empty() {
            drop(state);
            let ready = ring::poll(&*self.stream, PollFlags::IN | PollFlags::OUT);
            let ready = unless_cancelled(ready)?;
            let mut state = self.lock();
            state.may_have_more = true;
            state.end = ready.err().map(Err);
        } else {
            let mut buffer = std::mem::take(&mut state.buffer);
            drop(state);
            buffer.resize(BUFFER_BYTES, 0);
            let received = (&*self.stream).read(&mut buffer);
            let mut state = self.lock();
            state.buffer = buffer;
            state.note_received(unless_cancelled(received)?);
        }
        Ok(true)
    }
}

fn unless_cancelled<T>(result: io::Result<T>) -> Result<io::Result<T>, Cancelled> {
    match result.as_ref().err().and_then(Cancelled::of) {
        Some(cancelled) => Err(cancelled.clone()),
        None => Ok(result),
    }
}

/// Returns `None` if the receive would wait.
fn receive_now(stream: impl AsFd, buffer: &mut [u8]) -> Option<io::Result<usize>> {
    at_once(|| Ok(rustix::net::recv(&stream, &mut *buffer, RecvFlags::DONTWAIT)?.0))
}

/// Returns `None` if the send would wait.
fn send_now(stream: impl AsFd, bytes: &[u8]) -> Option<io::Result<usize>> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    at_once(|| Ok(rustix::net::send(&stream, bytes, flags)?))
}

fn at_once(mut call: impl FnMut() -> io::Result<usize>) -> Option<io::Result<usize>> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return Some(result),
        }
    }
}
