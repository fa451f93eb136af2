//! Sockets: streams and datagrams, half-closed, short, with time-outs, and without waiting.

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    time::{Duration, Instant},
};

use proptest::{prelude::*, strategy::Strategy};

use crate::{
    bytes, compare, digest,
    socket_types::{Socket, Sort},
    told, trace,
};

/// One call on one of the two sockets.
#[derive(Clone, Debug)]
enum Step {
    Send {
        side: usize,
        len: usize,
    },
    SendVectored {
        side: usize,
        lens: (usize, usize),
    },
    Receive {
        side: usize,
        len: usize,
    },
    ReceiveVectored {
        side: usize,
        lens: (usize, usize),
    },
    Peek {
        side: usize,
        len: usize,
    },
    Shutdown {
        side: usize,
        how: usize,
    },
    Nonblocking {
        side: usize,
        on: bool,
    },
    Timeout {
        side: usize,
        ms: Option<u64>,
    },
    WriteTimeout {
        side: usize,
        ms: Option<u64>,
    },
    /// The buffers of both sides become as small as they can be.
    Shrink,
    /// Sends more than there may be room for, while the other side receives all of it.
    Transfer {
        side: usize,
        len: usize,
        part: usize,
    },
    Duplicate(usize),
    Options(usize),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let side = 0..2usize;
    let len = || prop_oneof![0..5usize, 1..3000usize];
    let pair = || (len(), len());
    let timeout = prop_oneof![Just(None), Just(Some(0)), Just(Some(3))];
    prop_oneof![
        8 => (side.clone(), len()).prop_map(|(side, len)| Send { side, len }),
        2 => (side.clone(), pair()).prop_map(|(side, lens)| SendVectored { side, lens }),
        8 => (side.clone(), len()).prop_map(|(side, len)| Receive { side, len }),
        2 => (side.clone(), pair()).prop_map(|(side, lens)| ReceiveVectored { side, lens }),
        2 => (side.clone(), len()).prop_map(|(side, len)| Peek { side, len }),
        1 => (side.clone(), 0..3usize).prop_map(|(side, how)| Shutdown { side, how }),
        2 => (side.clone(), any::<bool>()).prop_map(|(side, on)| Nonblocking { side, on }),
        2 => (side.clone(), timeout).prop_map(|(side, ms)| Timeout { side, ms }),
        1 => (side.clone(), prop_oneof![Just(None), Just(Some(0)), Just(Some(3))])
            .prop_map(|(side, ms)| WriteTimeout { side, ms }),
        1 => Just(Shrink),
        1 => (side.clone(), 1..40_000usize, 1..9_000usize)
            .prop_map(|(side, len, part)| Transfer { side, len, part }),
        1 => side.clone().prop_map(Duplicate),
        1 => side.prop_map(Options),
    ]
}

/// The calls that one side may make without waiting forever, by the results so far.
#[derive(Clone, Copy, Default)]
struct Side {
    /// Bytes, or datagrams, that the other side has sent and this one has not received.
    queued: usize,
    is_nonblocking: bool,
    has_timeout: bool,
    has_write_timeout: bool,
    /// Nothing more can come.
    is_at_end: bool,
}

/// For more the sender would have to wait, and it is alone.
const MOST_BYTES: usize = 20_000;
const MOST_DATAGRAMS: usize = 5;

struct Pair<S> {
    sockets: [S; 2],
    sides: [Side; 2],
    is_small: bool,
}

impl<S: Socket> Pair<S> {
    fn has_room(&self, side: usize, len: usize) -> bool {
        if self.is_small {
            // When TCP has room again depends on the time. A send of a Unix socket ends by itself,
            // with as much as there is room for.
            let Side { is_nonblocking, .. } = self.sides[side];
            return matches!(S::SORT, Sort::Unix | Sort::UnixDatagram) && is_nonblocking;
        }
        let queued = self.sides[1 - side].queued;
        if S::SORT.is_stream() { queued + len <= MOST_BYTES } else { queued < MOST_DATAGRAMS }
    }

    /// Whether a receive ends by itself. Waits until all has come that was sent: a network may
    /// take its time.
    fn may_receive(&self, side: usize) -> bool {
        let Side { queued, is_nonblocking, has_timeout, is_at_end, .. } = self.sides[side];
        let fd = self.sockets[side].as_raw_fd();
        match queued {
            0 => {}
            _ if S::SORT.is_stream() => await_bytes(fd, queued),
            _ => await_readiness(fd, libc::POLLIN),
        }
        if is_at_end {
            await_readiness(fd, libc::POLLRDHUP);
        }
        queued > 0 || is_nonblocking || is_at_end || has_timeout
    }

    fn sent(&mut self, side: usize, result: io::Result<usize>) -> String {
        if let Ok(count) = &result {
            self.sides[1 - side].queued += if S::SORT.is_stream() { *count } else { 1 };
        }
        told(result)
    }

    fn received(&mut self, side: usize, buf: &[u8], result: io::Result<usize>) -> String {
        let count = result.as_ref().map_or(0, |count| *count);
        if result.is_ok() && self.sides[side].queued > 0 {
            self.sides[side].queued -= if S::SORT.is_stream() { count } else { 1 };
        }
        format!("{} {:x}", told(result), digest(&buf[..count]))
    }

    fn call(&mut self, step: &Step, nth: usize) -> Option<String> {
        Some(match *step {
            Step::Send { side, len } if self.has_room(side, len) => {
                let result = self.sockets[side].send_bytes(&bytes(len, nth));
                self.sent(side, result)
            }
            Step::SendVectored { side, lens } if self.has_room(side, lens.0 + lens.1) => {
                let (one, other) = (bytes(lens.0, nth), bytes(lens.1, nth + 1));
                let bufs = [IoSlice::new(&one), IoSlice::new(&other)];
                let result = self.sockets[side].send_parts(&bufs)?;
                self.sent(side, result)
            }
            Step::Receive { side, len } if self.may_receive(side) => {
                let mut buf = vec![0; len];
                let result = self.sockets[side].receive_bytes(&mut buf);
                self.received(side, &buf, result)
            }
            Step::ReceiveVectored { side, lens } if self.may_receive(side) => {
                let mut buf = vec![0; lens.0 + lens.1];
                let (one, other) = buf.split_at_mut(lens.0);
                let mut bufs = [IoSliceMut::new(one), IoSliceMut::new(other)];
                let result = self.sockets[side].receive_parts(&mut bufs)?;
                self.received(side, &buf, result)
            }
            Step::Peek { side, len } if self.may_receive(side) => {
                let mut buf = vec![0; len];
                let result = self.sockets[side].peek_bytes(&mut buf)?;
                let count = result.as_ref().map_or(0, |count| *count);
                format!("{} {:x}", told(result), digest(&buf[..count]))
            }
            ref step => self.change(step)?,
        })
    }

    fn change(&mut self, step: &Step) -> Option<String> {
        Some(match *step {
            Step::Shutdown { side, how } => {
                let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][how];
                // Bytes that arrive after TCP was shut down for reading may be received or not.
                if S::SORT == Sort::Tcp && how != Shutdown::Write {
                    return None;
                }
                let result = self.sockets[side].shut(how)?;
                if result.is_ok() {
                    self.sides[side].is_at_end |= how != Shutdown::Write;
                    self.sides[1 - side].is_at_end |= how != Shutdown::Read && S::SORT.is_stream();
                }
                told(result)
            }
            Step::Nonblocking { side, on } => {
                self.sides[side].is_nonblocking = on;
                told(self.sockets[side].nonblocking(on))
            }
            Step::Timeout { side, ms } => {
                let result = self.sockets[side].limit_reads(ms.map(Duration::from_millis));
                if result.is_ok() {
                    self.sides[side].has_timeout = ms.is_some();
                }
                told(result)
            }
            Step::WriteTimeout { side, ms } => {
                let result = self.sockets[side].limit_writes(ms.map(Duration::from_millis));
                if result.is_ok() {
                    self.sides[side].has_write_timeout = ms.is_some();
                }
                told(result)
            }
            // UDP would drop datagrams for which there is no room.
            Step::Shrink if S::SORT != Sort::Udp => {
                self.is_small = true;
                self.sockets.iter().for_each(|socket| shrink(socket.as_raw_fd()));
                String::new()
            }
            Step::Transfer { side, len, part } => self.transfer(side, len, part)?,
            Step::Duplicate(side) => {
                self.sockets[side] = self.sockets[side].duplicate();
                String::new()
            }
            Step::Options(side) => self.sockets[side].options(),
            _ => return None,
        })
    }
}

impl<S: Socket> Pair<S> {
    /// Sends while the other side receives, if both wait for each other for as long as it takes.
    fn transfer(&mut self, side: usize, len: usize, part: usize) -> Option<String> {
        let waits = |side: &Side| {
            !side.is_nonblocking && !side.is_at_end && !side.has_timeout && !side.has_write_timeout
        };
        if !S::SORT.is_stream() || !self.sides.iter().all(waits) || self.sides[1 - side].queued > 0
        {
            return None;
        }
        let (from, to) = (&self.sockets[side], &self.sockets[1 - side]);
        let all = bytes(len, part);
        let send = || {
            let mut rest = &all[..];
            while !rest.is_empty() {
                let sent = from.send_bytes(rest).expect("the other side receives");
                rest = &rest[sent..];
            }
        };
        let received = S::at_once(send, || {
            let mut received = Vec::new();
            let mut buf = vec![0; part];
            while received.len() < len {
                let room = part.min(len - received.len());
                let count = to.receive_bytes(&mut buf[..room]).expect("bytes");
                received.extend_from_slice(&buf[..count]);
            }
            received
        });
        Some(format!("{} {:x}", received == all, digest(&received)))
    }
}

/// The kernel raises the sizes to the least that it allows.
fn shrink(fd: i32) {
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        let (size, len) = (1 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the option is an int, which lives longer than the call.
        let set = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const size).cast(), len)
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }
}

fn await_readiness(fd: i32, events: i16) {
    let mut polled = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry, which lives longer than the call.
    unsafe { libc::poll(&raw mut polled, 1, 5000) };
}

fn await_bytes(fd: i32, count: usize) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        let mut there: libc::c_int = 0;
        // SAFETY: it writes an int.
        unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut there) };
        if there as usize >= count {
            return;
        }
        std::thread::yield_now();
    }
}

fn run<S: Socket>(steps: &[Step]) -> Vec<String> {
    let mut pair = Pair { sockets: S::pair(), sides: Default::default(), is_small: false };
    trace(steps, |step, nth| {
        let result = pair.call(step, nth)?;
        let queued = pair.sides.map(|side| side.queued);
        Some(format!("{result}, {queued:?} queued"))
    })
}

#[test]
fn tcp_streams_are_as_with_std() {
    compare("TCP", step(), run::<std::net::TcpStream>, run::<ramie::net::TcpStream>);
}

#[test]
fn unix_streams_are_as_with_std() {
    use ramie::os::unix::net::UnixStream;
    compare("Unix", step(), run::<std::os::unix::net::UnixStream>, run::<UnixStream>);
}

#[test]
fn udp_is_as_with_std() {
    compare("UDP", step(), run::<std::net::UdpSocket>, run::<ramie::net::UdpSocket>);
}

#[test]
fn unix_datagrams_are_as_with_std() {
    use ramie::os::unix::net::UnixDatagram;
    compare("datagrams", step(), run::<std::os::unix::net::UnixDatagram>, run::<UnixDatagram>);
}
