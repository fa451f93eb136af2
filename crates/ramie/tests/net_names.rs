//! The names and traits of std's `net`, `io`, `time` and Unix sockets: one list, compiled with
//! std's modules and with ours, so that what compiles with the one does with the other.

#![allow(clippy::no_effect_underscore_binding, deprecated)]

/// Names functions of a type.
macro_rules! has {
    ($type:ty: $($function:ident),+ $(,)?) => { $(let _ = <$type>::$function;)+ };
}

/// Demands that a type has traits.
macro_rules! is {
    ($type:ty: $($bounds:tt)+) => {{
        fn demand<T: ?Sized + $($bounds)+>() {}
        demand::<$type>();
    }};
}

macro_rules! names {
    ($library:ident) => {
        use std::{
            fmt::{Debug, Display},
            hash::Hash,
            io::{Read, Write},
            iter::FusedIterator,
            ops::{Add, AddAssign, Sub, SubAssign},
            os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
            panic::{RefUnwindSafe, UnwindSafe},
            path::Path,
            process::Stdio,
        };

        use $library::{
            io, net,
            net::{
                AddrParseError, Incoming, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr,
                SocketAddrV4, SocketAddrV6, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
            },
            os::{
                fd, linux,
                linux::net::{SocketAddrExt, TcpStreamExt},
                unix::net as unix,
            },
            time,
            time::{Duration, Instant, SystemTime, SystemTimeError, UNIX_EPOCH},
        };

        #[test]
        fn tcp() {
            let _ = (TcpStream::connect::<SocketAddr>, TcpListener::bind::<SocketAddr>);
            has!(TcpStream: connect_timeout, peer_addr, local_addr, shutdown, try_clone, ttl,
                set_read_timeout, set_write_timeout, read_timeout, write_timeout, peek, set_ttl,
                set_nodelay, nodelay, take_error, set_nonblocking, set_quickack, quickack);
            has!(TcpListener: local_addr, try_clone, accept, incoming, set_ttl, ttl, set_only_v6,
                only_v6, take_error, set_nonblocking);
            is!(TcpStream: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + Debug + Read + Write);
            is!(TcpStream: AsFd + AsRawFd + FromRawFd + IntoRawFd + From<OwnedFd> + Into<OwnedFd>);
            is!(&'static TcpStream: Read + Write);
            is!(TcpListener: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + Debug);
            is!(TcpListener: AsFd + AsRawFd + FromRawFd + IntoRawFd + From<OwnedFd>);
            is!(TcpListener: Into<OwnedFd>);
            is!(Incoming<'static>: Iterator + FusedIterator + Debug + Send + Sync);
        }

        #[test]
        fn udp() {
            let _ = (UdpSocket::bind::<SocketAddr>, UdpSocket::connect::<SocketAddr>);
            let _ = UdpSocket::send_to::<SocketAddr>;
            has!(UdpSocket: recv_from, peek_from, peer_addr, local_addr, try_clone, ttl, set_ttl,
                set_read_timeout, set_write_timeout, read_timeout, write_timeout, set_broadcast,
                broadcast, set_multicast_loop_v4, multicast_loop_v4, set_multicast_ttl_v4,
                multicast_ttl_v4, set_multicast_loop_v6, multicast_loop_v6, join_multicast_v4,
                join_multicast_v6, leave_multicast_v4, leave_multicast_v6, take_error, send, recv,
                peek, set_nonblocking);
            is!(UdpSocket: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + Debug + AsFd);
            is!(UdpSocket: AsRawFd + FromRawFd + IntoRawFd + From<OwnedFd> + Into<OwnedFd>);
        }

        #[test]
        fn addresses() {
            is!(SocketAddr: ToSocketAddrs);
            is!(SocketAddrV4: ToSocketAddrs);
            is!(SocketAddrV6: ToSocketAddrs);
            is!((IpAddr, u16): ToSocketAddrs);
            is!((Ipv4Addr, u16): ToSocketAddrs);
            is!((Ipv6Addr, u16): ToSocketAddrs);
            is!((&'static str, u16): ToSocketAddrs);
            is!((String, u16): ToSocketAddrs);
            is!(String: ToSocketAddrs);
            is!(str: ToSocketAddrs);
            is!(&'static [SocketAddr]: ToSocketAddrs);
            let _: Result<SocketAddr, AddrParseError> = "".parse();
            let _ = (Shutdown::Both, net::Shutdown::Read, unix::SocketAddr::is_unnamed);
            let _ = unix::SocketAddr::from_pathname::<&Path>;
            let _ = unix::SocketAddr::from_abstract_name::<&str>;
        }

        #[test]
        fn unix_sockets() {
            let _ = (unix::UnixStream::connect::<&Path>, unix::UnixListener::bind::<&Path>);
            let _ = (unix::UnixDatagram::bind::<&Path>, unix::UnixDatagram::connect::<&Path>);
            let _ = unix::UnixDatagram::send_to::<&Path>;
            has!(unix::UnixStream: connect_addr, pair, try_clone, local_addr, peer_addr, shutdown,
                set_read_timeout, set_write_timeout, read_timeout, write_timeout, take_error,
                set_nonblocking);
            has!(unix::UnixListener: bind_addr, accept, try_clone, local_addr, set_nonblocking,
                take_error, incoming);
            has!(unix::UnixDatagram: bind_addr, unbound, pair, connect_addr, try_clone, local_addr,
                peer_addr, recv_from, recv, send_to_addr, send, set_read_timeout,
                set_write_timeout, read_timeout, write_timeout, set_nonblocking, take_error,
                shutdown);
            is!(unix::UnixStream: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + Read + Write);
            is!(unix::UnixStream: AsFd + AsRawFd + FromRawFd + IntoRawFd + From<OwnedFd>);
            is!(unix::UnixStream: Into<OwnedFd>);
            is!(&'static unix::UnixStream: Read + Write);
            is!(unix::UnixListener: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + AsFd);
            is!(unix::UnixListener: AsRawFd + FromRawFd + IntoRawFd + From<OwnedFd>);
            is!(unix::UnixListener: Into<OwnedFd>);
            is!(&'static unix::UnixListener: IntoIterator);
            is!(unix::Incoming<'static>: Iterator + Debug);
            is!(unix::UnixDatagram: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + AsFd);
            is!(unix::UnixDatagram: AsRawFd + FromRawFd + IntoRawFd + From<OwnedFd>);
            is!(unix::UnixDatagram: Into<OwnedFd>);
        }

        #[test]
        fn pipes_and_streams() {
            let _ = (io::pipe, io::stdin, io::stdout, io::stderr, io::empty, io::repeat, io::sink);
            let _ = (io::copy::<io::Empty, io::Sink>, io::read_to_string::<io::Empty>);
            has!(io::PipeReader: try_clone);
            has!(io::PipeWriter: try_clone);
            is!(io::PipeReader: Send + Sync + Debug + Read + AsFd + AsRawFd + FromRawFd);
            is!(io::PipeReader: IntoRawFd + From<OwnedFd> + Into<OwnedFd> + Into<Stdio>);
            is!(&'static io::PipeReader: Read);
            is!(io::PipeWriter: Send + Sync + Debug + Write + AsFd + AsRawFd + FromRawFd);
            is!(io::PipeWriter: IntoRawFd + From<OwnedFd> + Into<OwnedFd> + Into<Stdio>);
            is!(&'static io::PipeWriter: Write);
            has!(io::Stdin: lock, read_line, lines);
            has!(io::Stdout: lock);
            has!(io::Stderr: lock);
            is!(io::Stdin: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + Read);
            is!(io::Stdin: AsFd + AsRawFd);
            is!(&'static io::Stdin: Read);
            is!(io::StdinLock<'static>: BufRead + Debug + AsFd + AsRawFd);
            is!(io::Stdout: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + Write + AsFd);
            is!(io::Stdout: AsRawFd + Into<Stdio>);
            is!(&'static io::Stdout: Write);
            is!(io::StdoutLock<'static>: UnwindSafe + RefUnwindSafe + Debug + Write);
            is!(io::StdoutLock<'static>: AsFd + AsRawFd);
            is!(io::Stderr: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + Write + AsFd);
            is!(io::Stderr: AsRawFd + Into<Stdio>);
            is!(&'static io::Stderr: Write);
            is!(io::StderrLock<'static>: UnwindSafe + RefUnwindSafe + Debug + Write);
            is!(io::StderrLock<'static>: AsFd + AsRawFd);
            let _ = (io::Error::last_os_error, io::ErrorKind::NotFound, io::SeekFrom::Start(0));
            use io::prelude::*;
            let _ = io::BufReader::new(io::empty()).lines();
            let _: Option<(io::Lines<io::Empty>, io::Split<io::Empty>, io::Take<io::Empty>)> = None;
            let _: Option<(io::Bytes<io::Empty>, io::Chain<io::Empty, io::Empty>)> = None;
            let _: Option<(io::BufWriter<io::Sink>, io::LineWriter<io::Sink>)> = None;
            let _: Option<(io::Cursor<()>, io::IoSlice<'_>, io::IoSliceMut<'_>)> = None;
            let _: Option<(io::IntoInnerError<()>, io::WriterPanicked, io::Repeat)> = None;
            let _: Option<io::Result<()>> = None;
            is!(std::fs::File: io::Read + io::Write + io::Seek + io::IsTerminal);
            is!(io::Empty: io::BufRead);
        }

        #[test]
        fn time_names() {
            has!(Instant: now, duration_since, checked_duration_since, elapsed, checked_add,
                saturating_duration_since, checked_sub);
            has!(SystemTime: now, duration_since, elapsed, checked_add, checked_sub);
            has!(SystemTimeError: duration);
            let _ = (SystemTime::UNIX_EPOCH, UNIX_EPOCH, Duration::ZERO);
            let _: Option<time::TryFromFloatSecsError> = None;
            is!(Instant: Copy + Eq + Ord + Hash + Debug + Send + Sync + UnwindSafe);
            is!(Instant: Add<Duration> + AddAssign<Duration> + Sub<Duration> + SubAssign<Duration>);
            is!(Instant: Sub<Instant>);
            is!(SystemTime: Copy + Eq + Ord + Hash + Debug + Send + Sync + UnwindSafe);
            is!(SystemTime: Add<Duration> + AddAssign<Duration> + Sub<Duration>);
            is!(SystemTime: SubAssign<Duration>);
            is!(SystemTimeError: std::error::Error + Display + Clone + Send + Sync);
        }

        #[test]
        fn macros_and_folders() {
            $library::print!("");
            $library::eprint!("{}", "");
            let _ = || $library::println!();
            let _ = || $library::eprintln!("{0}", 1);
            let _: Option<(fd::OwnedFd, fd::BorrowedFd<'_>, fd::RawFd)> = None;
            is!(std::fs::Metadata: linux::fs::MetadataExt);
        }
    };
}

mod theirs {
    names!(std);
}

mod ours {
    names!(ramie);
}
