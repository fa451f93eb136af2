//! The twin of `std::net::TcpStream`.

use std::{
    fmt,
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use ramie_driver::sys::{self, sockopt};

use super::{
    RecvEach, Shutdown, SocketAddr, ToSocketAddrs,
    addr::{family_of, no_address},
    handle::{bounded_like_std, converts_like_std, shared_like_std},
    socket::Socket,
};
use crate::{
    core::time::Deadline,
    op::forward::{read_by_field, write_by_field},
};

/// A TCP connection; twin of [`std::net::TcpStream`].
///
/// It implements [`Read`](io::Read) and [`Write`](io::Write), also by shared reference, so that one
/// strand may read while another writes. It is closed when dropped.
///
/// # Blocking
/// A read or write that would wait parks the fiber, or the thread outside one. The kernel moves the
/// bytes into and out of the caller's own buffer. In a destructor that runs during a panic, a read
/// or write does not suspend its fiber, but blocks the worker, for 100 ms at most.
///
/// # Cancellation
/// Reads, writes, sends, receives and connects are cancel points. The error of a cancelled
/// `write_all` or `read_exact` holds the number of bytes moved
/// ([`bytes_moved`](crate::cancel::bytes_moved)).
///
/// # Errors
/// As std's. `WouldBlock`: a timeout has passed. `ConnectionReset`, `BrokenPipe`: the peer is gone.
/// Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
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
    /// That of the last address tried. `ConnectionRefused`, `HostUnreachable`,
    /// `NetworkUnreachable`, `TimedOut`: no server answers there. `InvalidInput`: there was no
    /// address.
    #[track_caller]
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        // No closure, which would be the caller that dumps name.
        let mut last_error = None;
        for address in addr.to_socket_addrs()? {
            match connect(&address, Deadline::NEVER) {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or_else(no_address))
    }

    /// Connects to an address, within `timeout`.
    ///
    /// # Blocking
    /// Parks the strand while the connection is being made.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// `TimedOut`: the timeout passed first. `InvalidInput`: the timeout is zero. Otherwise as
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
    /// `NotConnected`: the peer is gone.
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
    /// return 0; the peer can still read all bytes sent before.
    ///
    /// # Errors
    /// `NotConnected`: the peer is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Sends without copying the bytes into the kernel, as many as there is room for; returns their
    /// number.
    ///
    /// The network card reads the bytes from `buf`. That pays for large sends to other machines.
    /// Over loopback the kernel copies nevertheless, so this is slower than a write, up to 256 KiB.
    /// Below 64 KiB, and if the kernel cannot send without copying, this is a plain send.
    ///
    /// # Blocking
    /// Parks the strand until the kernel no longer needs the bytes, because the peer has
    /// acknowledged them or the connection is broken.
    ///
    /// # Cancellation
    /// A cancel point until the kernel has taken bytes; from then on the call waits until the
    /// kernel no longer needs them.
    ///
    /// # Errors
    /// As for a write.
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
    /// As for a write.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn send_vectored_zero_copy(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.send_zero_copy(bufs)
    }

    /// Iterates over the bytes as they come, in buffers of the runtime.
    ///
    /// The kernel chooses a buffer when bytes arrive, so an idle connection holds no buffer, and
    /// one multishot op receives all. The connections of a worker share the buffers, whose number
    /// grows as needed; dropping a [`Lease`] returns its buffer. The bytes come in the pieces in
    /// which they arrive, of up to 32 KiB.
    ///
    /// Up to about 64 KiB are received before the program takes them; then the peer has to wait. If
    /// the iterator is dropped or forgotten, the next read returns bytes that were received and not
    /// taken, whether it is a read of this stream, of a `try_clone`, or one of
    /// [`ring`](crate::ring); [`ring::poll`](crate::ring::poll()) and
    /// [`io::wait_any`](crate::io::wait_any()) report the stream as ready. Converting the last
    /// handle to an `OwnedFd` discards the bytes.
    ///
    /// A stream that is made of a duplicate of the descriptor (`TcpStream::from`) reads these
    /// bytes, too, if it is made after the first call of `recv_each`, or has called `recv_each`
    /// itself. A stream that was made before reads past them until then, because a search in each
    /// read would cost a system call. The bytes are no longer in the kernel, so other processes,
    /// epoll sets, [`io::Async`](crate::io::Async), and files, pipes and std's streams made of a
    /// duplicate do not see them.
    ///
    /// # Blocking
    /// Each step that has to wait for bytes parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Each step is a cancel point. A step that was cancelled or timed out loses no byte: the next
    /// step continues where it stopped.
    ///
    /// # Errors
    /// Of a step: as for a read.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    ///
    /// # Outside a fiber
    /// Outside [`run`](crate::run()), and if strands are threads, each step makes one receive, with
    /// the same results.
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

    /// Reads bytes without removing them, so the next read returns the same bytes.
    ///
    /// # Blocking
    /// As for a read.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As for a read.
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

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, peer) = (self.local_addr().ok(), self.peer_addr().ok());
        super::debug(f, "TcpStream", self.as_raw_fd(), local, peer)
    }
}

read_by_field!(socket: TcpStream, &TcpStream);
write_by_field!(socket: TcpStream, &TcpStream);
shared_like_std!(TcpStream);
bounded_like_std!(TcpStream);
converts_like_std!(TcpStream, std::net::TcpStream);
