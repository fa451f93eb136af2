//! Requests to a responder in another process, which answers each after the time that it asks for.
//!
//! A request is a number and a wait in nanoseconds; the answer is the scrambled number and the
//! wait. A strand sends its next request only after the answer to the one before it.
//!
//! The responder is a process of its own, so its CPU time is not in the figures. A process that
//! runs strands connects to it by a Unix socket with an abstract name, and sends it one end of each
//! strand's socket or pipes.

use std::{
    io::{self, IoSlice, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net,
    },
    time::Duration,
};

use ramie::os::unix::net::{UnixListener, UnixStream};

use super::work::scramble;
use crate::StrandKind;

const LENGTH: usize = 16;

/// The kinds of descriptors in a message.
const STREAMS: u8 = b's';
const PIPES: u8 = b'p';
/// The responder's reply to a message with descriptors.
const TAKEN: u8 = b'+';

fn message(number: u64, wait_ns: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&wait_ns.to_le_bytes());
    bytes
}

fn parse(bytes: [u8; LENGTH]) -> (u64, u64) {
    let half = |from: usize| {
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(half)
    };
    (half(0), half(8))
}

/// A strand's end of its socket.
pub(super) struct Socket<S: StrandKind>(S::Stream);

/// A strand's ends of its two pipes.
pub(super) struct Pipes<S: StrandKind> {
    requests: S::PipeWriter,
    answers: S::PipeReader,
}

impl<S: StrandKind> Socket<S> {
    pub(super) fn ask(&mut self, number: u64, wait: Duration) -> io::Result<()> {
        let request = message(number, wait.as_nanos() as u64);
        self.0.write_all(&request)?;
        hear(&mut self.0, request)
    }
}

impl<S: StrandKind> Pipes<S> {
    pub(super) fn ask(&mut self, number: u64, wait: Duration) -> io::Result<()> {
        let request = message(number, wait.as_nanos() as u64);
        self.requests.write_all(&request)?;
        hear(&mut self.answers, request)
    }
}

/// Reads the answer and checks it.
fn hear(reader: &mut impl Read, request: [u8; LENGTH]) -> io::Result<()> {
    let mut answer = [0; LENGTH];
    reader.read_exact(&mut answer)?;
    let (number, wait_ns) = parse(request);
    match answer == message(scramble(number), wait_ns) {
        true => Ok(()),
        false => Err(io::Error::other("an answer has other bytes than were asked for")),
    }
}

/// Makes a socket for each strand, whose other end the responder of this name has.
pub(super) fn sockets<S: StrandKind>(count: usize, responder: &str) -> io::Result<Vec<Socket<S>>> {
    let mut control = Control::connect(responder, STREAMS)?;
    let make = |_| {
        let (ours, theirs) = S::socketpair()?;
        control.give([theirs.as_fd()])?;
        Ok(Socket(ours))
    };
    (0..count).map(make).collect()
}

/// Makes two pipes for each strand, whose other ends the responder of this name has.
pub(super) fn pipes<S: StrandKind>(count: usize, responder: &str) -> io::Result<Vec<Pipes<S>>> {
    let mut control = Control::connect(responder, PIPES)?;
    let make = |_| {
        let ((to_read, requests), (answers, to_write)) = (S::pipe()?, S::pipe()?);
        control.give([to_read.as_fd(), to_write.as_fd()])?;
        Ok(Pipes { requests, answers })
    };
    (0..count).map(make).collect()
}

/// The connection that hands descriptors to the responder.
struct Control {
    stream: UnixStream,
    kind: u8,
}

impl Control {
    fn connect(responder: &str, kind: u8) -> io::Result<Self> {
        let address = net::SocketAddr::from_abstract_name(responder)?;
        let stream = net::UnixStream::connect_addr(&address)?;
        Ok(Control { stream: stream.into(), kind })
    }

    /// Hands over the ends of one strand, and waits until the responder has them.
    fn give<const N: usize>(&mut self, ends: [BorrowedFd<'_>; N]) -> io::Result<()> {
        self.stream.send_vectored_with_fds(&[IoSlice::new(&[self.kind])], &ends)?;
        let mut reply = [0];
        self.stream.read_exact(&mut reply)?;
        match reply[0] {
            TAKEN => Ok(()),
            _ => Err(io::Error::other("the responder has no descriptor left; raise `ulimit -n`")),
        }
    }
}

/// Answers the requests of every process that connects, until the calling process ends. Fails if
/// the listener does.
pub fn respond(listener: &UnixListener) -> io::Result<()> {
    for control in listener.incoming() {
        let control = control?;
        drop(ramie::fiber::spawn(move || take(control)));
    }
    Ok(())
}

/// Takes the descriptors that come through a control connection, until it is closed.
fn take(mut control: UnixStream) {
    let mut ends = Vec::with_capacity(2);
    let mut kind = [0];
    loop {
        let buffers = &mut [io::IoSliceMut::new(&mut kind)];
        let received = control.recv_vectored_with_fds(buffers, &mut ends);
        if !received.is_ok_and(|received| received.bytes == 1) {
            return;
        }
        let mut ends = ends.drain(..);
        let reply = match (kind[0], ends.next(), ends.next()) {
            (STREAMS, Some(stream), None) => {
                drop(ramie::fiber::spawn(move || answer_stream(UnixStream::from(stream))));
                TAKEN
            }
            (PIPES, Some(reader), Some(writer)) => {
                drop(ramie::fiber::spawn(move || answer_pipes(reader, writer)));
                TAKEN
            }
            _ => b'-',
        };
        if control.write_all(&[reply]).is_err() {
            return;
        }
    }
}

fn answer_stream(mut stream: UnixStream) {
    let mut request = [0; LENGTH];
    while stream.read_exact(&mut request).is_ok() {
        if stream.write_all(&answer_to(request)).is_err() {
            return;
        }
    }
}

fn answer_pipes(reader: OwnedFd, writer: OwnedFd) {
    let mut reader = ramie::io::PipeReader::from(reader);
    let mut writer = ramie::io::PipeWriter::from(writer);
    let mut request = [0; LENGTH];
    while reader.read_exact(&mut request).is_ok() {
        if writer.write_all(&answer_to(request)).is_err() {
            return;
        }
    }
}

/// Waits for the time that the request asks for.
fn answer_to(request: [u8; LENGTH]) -> [u8; LENGTH] {
    let (number, wait_ns) = parse(request);
    ramie::fiber::sleep(Duration::from_nanos(wait_ns));
    message(scramble(number), wait_ns)
}
