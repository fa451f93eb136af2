//! The twin of `std::net::TcpStream`.

use std::{
    fmt,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use ramie_driver::sys::{self, sockopt};

use super::{
    RecvEach, Shutdown, SocketAddr, ToSocketAddrs,
    addr::{family_of, first_success},
    handle::{bounded_like_std, converts_like_std, shared_like_std},
    socket::Socket,
};
use crate::{
    core::time::Deadline,
    op::whole::{counted_read_exact, counted_write_all},
};

/// A TCP connection; twin of [`std::net::TcpStream`].
///
/// It is [`Read`] and [`Write`], itself and by shared reference, so that one strand may read while
/// another writes. Closed when dropped.
///
/// # Blocking
/// A read or write that would wait parks the fiber, or the thread outside one. The kernel moves the
/// bytes into and out of the caller's own buffer.
///
/// # Cancellation
/// Reads, writes, sends, receives and connects are cancel points. The error of a cancelled
/// `write_all` or `read_exact` holds the number of bytes moved
/// ([`bytes_moved`](crate::cancel::bytes_moved)).
///
/// # Errors
/// As std's. A timeout that is over: `WouldBlock`. The peer is gone: `ConnectionReset`,
/// `BrokenPipe`. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Outside a fiber
/// In a destructor that runs during a panic, a read or write on a fiber does not suspend it: it is
/// awaited in place, for 100 ms at most.
pub struct TcpStream {
    socket: Socket,
}

impl TcpStream {
    pub(super) fn from_socket(socket: Socket) -> Self {
        TcpStream { socket }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Connects to the first of the addresses that can be reached.
    ///
    /// # Blocking
    /// Parks the strand while a host name is resolved and while the connection is being made.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// Of the last address tried. `ConnectionRefused`, `HostUnreachable`, `NetworkUnreachable`,
    /// `TimedOut`: nobody answers there. `InvalidInput`: there was no address.
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        first_success(addr, |address| connect(address, Deadline::NEVER))
    }

    /// Connects to an address, within a time.
    ///
    /// # Blocking
    /// Parks the strand while the connection is being made.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// `TimedOut`: the time was over first. `InvalidInput`: the time is zero. Otherwise as
    /// [`TcpStream::connect`].
    #[track_caller]
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot set a 0 duration timeout",
            ));
        }
        connect(addr, Deadline::after(timeout))
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// `NotConnected`: it is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        sys::peer_addr(&self.socket)
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not an IP socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr(&self.socket)
    }

    /// Shuts down reading, writing or both, for every handle of this connection. Reads that wait
    /// return 0, and the peer reads to the end of the sent bytes.
    ///
    /// # Errors
    /// `NotConnected`: the peer is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Sends without copying the bytes into the kernel, as far as there is room; returns how many.
    ///
    /// The network card reads them where they lie. That pays for large sends to other machines.
    /// Over loopback the kernel copies after all, and then it is slower than a write, up to
    /// 256 KiB. Below 64 KiB, and where the kernel cannot, this is a plain send.
    ///
    /// # Blocking
    /// Parks the strand until the kernel has let go of the bytes: until the peer has acknowledged
    /// them, or the connection is given up.
    ///
    /// # Cancellation
    /// A cancel point until bytes were taken; from then on it waits for the kernel to let go of
    /// them.
    ///
    /// # Errors
    /// As of a write.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn send_zero_copy(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.send_zero_copy(&[IoSlice::new(buf)])
    }

    /// Sends several buffers as [`send_zero_copy`](Self::send_zero_copy) does one.
    ///
    /// # Blocking
    /// As [`send_zero_copy`](Self::send_zero_copy).
    ///
    /// # Cancellation
    /// A cancel point, as [`send_zero_copy`](Self::send_zero_copy).
    ///
    /// # Errors
    /// As of a write.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn send_vectored_zero_copy(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.send_zero_copy(bufs)
    }

    /// Iterates over the bytes as they come, in the runtime's own buffers.
    ///
    /// The kernel picks a buffer when bytes arrive, so a connection that is idle holds none, and
    /// one call of the kernel receives again and again. The buffers are shared by the connections
    /// of a worker and grow in number as needed; each goes back when its [`Lease`] is dropped. The
    /// bytes come in whatever pieces they arrive in, of up to 32 KiB.
    ///
    /// Bytes are received even while nobody asks for them, up to about 64 KiB; then the peer has to
    /// wait. Bytes that were received and not taken when the iterator is dropped or forgotten are
    /// returned by the next read. Converting the stream to an `OwnedFd` discards them.
    ///
    /// # Blocking
    /// Each step that has to wait for bytes parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Each step is a cancel point. After a step that was cancelled, or whose time was over, the
    /// next goes on where it stopped: no byte is lost.
    ///
    /// # Errors
    /// Of a step: as of a read.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    ///
    /// # Outside a fiber
    /// An ordinary thread receives one by one, with the same results.
    ///
    /// # Examples
    /// ```
    /// use ramie::{io::Write, net::{TcpListener, TcpStream}};
    ///
    /// ramie::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let mut client = TcpStream::connect(listener.local_addr()?)?;
    ///     let (server, _) = listener.accept()?;
    ///     client.write_all(b"hello")?;
    ///     drop(client);
    ///     let mut received = Vec::new();
    ///     for bytes in server.recv_each() {
    ///         received.extend_from_slice(&bytes?);
    ///     }
    ///     assert_eq!(received, b"hello");
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// [`Lease`]: crate::io::Lease
    pub fn recv_each(&self) -> RecvEach<'_> {
        RecvEach::new(&self.socket)
    }

    /// Reads without taking: the next read sees the same bytes.
    ///
    /// # Blocking
    /// As a read.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As a read.
    #[track_caller]
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buf, sys::MSG_PEEK)
    }

    /// Chooses whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a TCP socket.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.socket, nodelay)?)
    }

    /// Returns whether small writes are sent at once.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a TCP socket.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(&self.socket)?)
    }

    /// Sets the time to live of the packets sent.
    ///
    /// # Errors
    /// The value is 0 or above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.socket, ttl)?)
    }

    /// Returns the time to live of the packets sent.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not an IPv4 socket.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.socket)?)
    }
}

#[track_caller]
pub(super) fn connect(address: &SocketAddr, deadline: Deadline) -> io::Result<TcpStream> {
    let socket = Socket::stream(family_of(address))?;
    socket.connect(&address.into(), deadline)?;
    Ok(TcpStream { socket })
}

impl Read for &TcpStream {
    #[track_caller]
    #[inline(always)]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buf, 0)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.receive_vectored(bufs)
    }

    counted_read_exact!();
}

impl Read for TcpStream {
    #[track_caller]
    #[inline(always)]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }

    counted_read_exact!();
}

impl Write for &TcpStream {
    #[track_caller]
    #[inline(always)]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.send(buf)
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.send_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    counted_write_all!();
}

impl Write for TcpStream {
    #[track_caller]
    #[inline(always)]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    counted_write_all!();
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpStream");
        if let Ok(address) = self.local_addr() {
            debug.field("addr", &address);
        }
        if let Ok(peer) = self.peer_addr() {
            debug.field("peer", &peer);
        }
        debug.field("fd", &self.as_raw_fd()).finish()
    }
}

shared_like_std!(TcpStream);
bounded_like_std!(TcpStream);
converts_like_std!(TcpStream, std::net::TcpStream);
