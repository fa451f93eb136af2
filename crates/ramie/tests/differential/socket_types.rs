//! The sockets of both libraries by one name.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    net::Shutdown,
    os::fd::AsRawFd,
    time::Duration,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Tcp,
    Unix,
    Udp,
    UnixDatagram,
}

impl Sort {
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Sort::Tcp | Sort::Unix)
    }
}

/// A socket; none: its type has no such call.
pub(crate) trait Socket: AsRawFd + Sized + Sync {
    const SORT: Sort;
    fn pair() -> [Self; 2];
    fn send_bytes(&self, buf: &[u8]) -> io::Result<usize>;
    fn receive_bytes(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn send_parts(&self, _: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        None
    }
    fn receive_parts(&self, _: &mut [IoSliceMut<'_>]) -> Option<io::Result<usize>> {
        None
    }
    fn peek_bytes(&self, _: &mut [u8]) -> Option<io::Result<usize>> {
        None
    }
    fn shut(&self, _: Shutdown) -> Option<io::Result<()>> {
        None
    }
    fn nonblocking(&self, on: bool) -> io::Result<()>;
    fn limit_reads(&self, limit: Option<Duration>) -> io::Result<()>;
    fn limit_writes(&self, limit: Option<Duration>) -> io::Result<()>;
    /// Runs both at the same time, on strands of the library.
    fn at_once<T: Send>(one: impl FnOnce() + Send, other: impl FnOnce() -> T + Send) -> T;
    fn duplicate(&self) -> Self;
    fn options(&self) -> String;
}

/// The calls that all types share.
macro_rules! common {
    () => {
        fn nonblocking(&self, on: bool) -> io::Result<()> {
            self.set_nonblocking(on)
        }
        fn limit_reads(&self, limit: Option<Duration>) -> io::Result<()> {
            self.set_read_timeout(limit)
        }
        fn limit_writes(&self, limit: Option<Duration>) -> io::Result<()> {
            self.set_write_timeout(limit)
        }
        fn at_once<T: Send>(one: impl FnOnce() + Send, other: impl FnOnce() -> T + Send) -> T {
            thread::scope(|scope| {
                scope.spawn(one);
                scope.spawn(other).join().unwrap()
            })
        }
        fn duplicate(&self) -> Self {
            self.try_clone().unwrap()
        }
        fn options(&self) -> String {
            let has_timeout = [self.read_timeout(), self.write_timeout()]
                .map(|timeout| timeout.unwrap().is_some());
            format!("{has_timeout:?} {:?}", self.take_error().unwrap())
        }
    };
}

macro_rules! stream {
    () => {
        fn send_bytes(&self, buf: &[u8]) -> io::Result<usize> {
            (&mut &*self).write(buf)
        }
        fn receive_bytes(&self, buf: &mut [u8]) -> io::Result<usize> {
            (&mut &*self).read(buf)
        }
        fn send_parts(&self, bufs: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
            Some((&mut &*self).write_vectored(bufs))
        }
        fn receive_parts(&self, bufs: &mut [IoSliceMut<'_>]) -> Option<io::Result<usize>> {
            Some((&mut &*self).read_vectored(bufs))
        }
        shut!();
    };
}

macro_rules! shut {
    () => {
        fn shut(&self, how: Shutdown) -> Option<io::Result<()>> {
            Some(self.shutdown(how))
        }
    };
}

macro_rules! datagram {
    () => {
        fn send_bytes(&self, buf: &[u8]) -> io::Result<usize> {
            self.send(buf)
        }
        fn receive_bytes(&self, buf: &mut [u8]) -> io::Result<usize> {
            self.recv(buf)
        }
    };
}

macro_rules! peek {
    () => {
        fn peek_bytes(&self, buf: &mut [u8]) -> Option<io::Result<usize>> {
            Some(self.peek(buf))
        }
    };
}

/// The sockets of whichever library goes by the name of `std`.
macro_rules! sockets {
    ($library:ident) => {
        const _: () = {
            use std::{
                net::{TcpListener, TcpStream, UdpSocket},
                os::unix::net::{UnixDatagram, UnixStream},
                thread,
            };
            use $library as std;

            impl Socket for TcpStream {
                const SORT: Sort = Sort::Tcp;
                fn pair() -> [Self; 2] {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                    let both = [client, listener.accept().unwrap().0];
                    // Small segments would be held back until others are acknowledged.
                    both.iter().for_each(|socket| socket.set_nodelay(true).unwrap());
                    both
                }
                stream!();
                peek!();
                common!();
            }

            impl Socket for UnixStream {
                const SORT: Sort = Sort::Unix;
                fn pair() -> [Self; 2] {
                    UnixStream::pair().unwrap().into()
                }
                stream!();
                common!();
            }

            impl Socket for UdpSocket {
                const SORT: Sort = Sort::Udp;
                fn pair() -> [Self; 2] {
                    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
                    sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
                    sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
                    sockets
                }
                datagram!();
                peek!();
                common!();
            }

            impl Socket for UnixDatagram {
                const SORT: Sort = Sort::UnixDatagram;
                fn pair() -> [Self; 2] {
                    UnixDatagram::pair().unwrap().into()
                }
                datagram!();
                shut!();
                common!();
            }
        };
    };
}

sockets!(std);
sockets!(ramie);
