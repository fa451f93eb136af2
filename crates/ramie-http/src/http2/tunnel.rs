//! A stream of HTTP/2 that carries another protocol (RFC 8441): hyper's end of it, as a stream that
//! fibers read and write.
//!
//! One fiber may read while others write. All poll hyper's end under a lock, which is held during a
//! poll only; hyper keeps a waker for each direction. A cut takes the end out of the lock, and
//! wakes the reader, because hyper forgets it.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use hyper::{
    rt::{Read, ReadBuf, Write},
    upgrade::Upgraded as End,
};
use ramie::{cancel, future::block_on_or_cancelled};

use crate::io::Duplex;

pub(super) struct Tunnel {
    state: Mutex<TunnelState>,
}

struct TunnelState {
    /// None once the tunnel was cut.
    end: Option<End>,
    reader: Option<Waker>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl Tunnel {
    pub(super) fn new(end: End) -> Self {
        let state =
            TunnelState { end: Some(end), reader: None, read_timeout: None, write_timeout: None };
        Tunnel { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, TunnelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_read(&self, context: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let Some(end) = &mut state.end else { return Poll::Ready(Ok(0)) };
        let mut filled = ReadBuf::new(buf);
        let read = Pin::new(end).poll_read(context, filled.unfilled());
        if read.is_pending() {
            state.reader = Some(context.waker().clone());
        }
        read.map(|read| read.map(|()| filled.filled().len()))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.state().end {
            Some(end) => Pin::new(end).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

/// Waits as a call of a socket does, whose timeout is an error of its own.
fn wait<T>(
    timeout: Option<Duration>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    let wait = || block_on_or_cancelled(poll_fn(poll));
    let waited = match timeout {
        None => wait(),
        Some(timeout) => {
            cancel::with_timeout(timeout, wait).unwrap_or_else(|late| late.into_value())
        }
    };
    match waited {
        Ok(done) => done,
        // A limit around this call is still to be seen.
        Err(cancelled) if cancelled.is_deadline() && cancel::check_cancelled().is_ok() => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Err(cancelled) => Err(cancelled.into()),
    }
}

impl Duplex for Tunnel {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let timeout = self.state().read_timeout;
        wait(timeout, |context| self.poll_read(context, buf))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let timeout = self.state().write_timeout;
        wait(timeout, |context| self.poll_write(context, bytes))
    }

    fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let first = parts.iter().find(|part| !part.is_empty());
        first.map_or(Ok(0), |part| self.write(part))
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes)?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.state().read_timeout = timeout;
        Ok(())
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.state().write_timeout = timeout;
        Ok(())
    }

    fn cut(&self) {
        let mut state = self.state();
        let (end, reader) = (state.end.take(), state.reader.take());
        drop(state);
        drop(end);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}
