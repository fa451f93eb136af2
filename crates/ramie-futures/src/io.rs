//! A Ramie stream for async code.

use std::{
    fmt,
    io::{self, ErrorKind},
    net::Shutdown,
    os::fd::AsFd,
    sync::Arc,
    task::{Context, Poll},
};

use ramie::{net::TcpStream, os::unix::net::UnixStream};
use rustix::net::{RecvFlags, SendFlags};

use crate::readiness::{Direction, Readiness};

mod sealed {
    // Same name as `ramie::io::Sealed`: the usual name of a private supertrait.
    pub trait Sealed {}
    impl Sealed for ramie::net::TcpStream {}
    impl Sealed for ramie::os::unix::net::UnixStream {}
}

/// The streams that [`Io`] accepts: [`TcpStream`] and [`UnixStream`].
pub trait Socket: sealed::Sealed + AsFd + Send + Sync + 'static {
    #[doc(hidden)]
    fn shut_down_writing(&self) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn shut_down_writing(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Socket for UnixStream {
    fn shut_down_writing(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A Ramie stream that async code reads and writes by the traits of `hyper::rt`, `tokio::io` and
/// `futures-io`.
///
/// Each poll tries the call without waiting. If it would wait, a small helper strand waits instead
/// and wakes the task: a fiber of this worker or, if the poll is not on a fiber, a thread. `Io` is
/// meant for futures on fibers. Between two polls the kernel holds no buffer, so a future may be
/// dropped at any time, and no byte is lost.
///
/// Dropping it closes the stream, at the latest when the helper strands have noticed, unless the
/// stream has another owner ([`From<Arc<S>>`](#impl-From<Arc<S>>-for-Io<S>)).
///
/// [`run`](ramie::run) does not wait for the helper strands. If a poll was pending when the runtime
/// ended, the next poll that would wait fails with the error of a cancelled call. The poll after it
/// waits by a strand of the runtime that it is called in, or by a thread.
///
/// # Examples
/// ```
/// use ramie::{future::block_on, os::unix::net::UnixStream};
/// use ramie_futures::Io;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// ramie::run(|| {
///     let (left, right) = UnixStream::pair()?;
///     let (mut left, mut right) = (Io::new(left), Io::new(right));
///     ramie::fiber::spawn_local(move || block_on(async move { left.write_all(b"hello").await }));
///     let mut text = String::new();
///     block_on(right.read_to_string(&mut text))?;
///     assert_eq!(text, "hello");
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub struct Io<S> {
    stream: Arc<S>,
    reading: Arc<Readiness>,
    writing: Arc<Readiness>,
}

impl<S: Socket> Io<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> Self {
        Arc::new(stream).into()
    }

    /// Returns a reference to the stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    pub(crate) fn poll_receive(
        &self,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, Direction::Read, || {
            let flags = RecvFlags::DONTWAIT;
            Ok(rustix::net::recv(&*self.stream, &mut *buffer, flags)?.0)
        })
    }

    pub(crate) fn poll_send(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(context, Direction::Write, || {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            Ok(rustix::net::send(&*self.stream, bytes, flags)?)
        })
    }

    pub(crate) fn shut_down(&self) -> Poll<io::Result<()>> {
        Poll::Ready(match self.stream.shut_down_writing() {
            // The stream became ready meanwhile.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            result => result,
        })
    }

    fn poll(
        &self,
        context: &Context<'_>,
        to: Direction,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match call() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
        let readiness = match to {
            Direction::Read => &self.reading,
            Direction::Write => &self.writing,
        };
        match Readiness::register(readiness, &self.stream, to, context.waker()) {
            Ok(()) => Poll::Pending,
            Err(refusal) => Poll::Ready(Err(refusal)),
        }
    }
}

/// Wraps a stream that other code uses, too. The stream is closed when the last owner drops it.
impl<S: Socket> From<Arc<S>> for Io<S> {
    fn from(stream: Arc<S>) -> Self {
        Io { stream, reading: Arc::default(), writing: Arc::default() }
    }
}

impl<S> Drop for Io<S> {
    fn drop(&mut self) {
        self.reading.close();
        self.writing.close();
    }
}

impl<S: fmt::Debug> fmt::Debug for Io<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Io").field(&self.stream).finish()
    }
}
