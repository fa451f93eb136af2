//! The body of a request, which arrives while it is read.
//!
//! # Protocol: whose turn it is to read
//! The connection lends its input to the body, and takes it back when the response is sent. Whoever
//! still holds the body then reads an error: the next bytes belong to the next request. Both sides
//! go through one lock, so that a read that is under way ends first.
//!
//! A response may be sent while the body is read, so [`Expectation`] keeps `100 Continue` out of
//! the response.

use std::{
    io::{self, Read},
    net::Shutdown,
    sync::Arc,
    time::Duration,
};

use http::HeaderMap;
use ramie::{
    cancel,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{BodyError, expectation::Expectation};
use crate::{
    h1::{
        chunked::{ChunkedDecoder, Found},
        framing::Framing,
    },
    io::{Input, Stream},
    limits::Limits,
};

/// The handle of a body that arrives.
pub(crate) struct Incoming {
    /// The length that the client has announced.
    length: Option<u64>,
    shared: Arc<Mutex<Lent>>,
    expectation: Option<Arc<Expectation>>,
}

/// What the body has of its connection.
struct Lent {
    /// None once the connection has taken it back.
    source: Option<BodySource>,
    trailers: Option<HeaderMap>,
}

/// The input of a connection while a body is read from it.
pub(crate) struct BodySource {
    stream: Arc<Stream>,
    input: Input,
    left: BodyLeft,
    expectation: Option<Arc<Expectation>>,
    pace: Pace,
    /// Bytes that may still come before the body is too large.
    room: u64,
    most: u64,
    /// The first error; all further reads fail with it, because the place in the input is lost.
    error: Option<BodyError>,
}

/// The part of a body that was not read yet.
enum BodyLeft {
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// How fast a body arrives.
pub(crate) struct Pace {
    /// The time that reads have waited. The time between two reads is not the client's.
    waited: Duration,
    received: u64,
    bytes_per_second: u64,
    grace: Duration,
    /// No read waits beyond it, whatever the pace is.
    end: Option<Instant>,
}

/// The size of reads from the stream that are not from a reader's own large buffer.
const PIECE: usize = 16 << 10;

impl Incoming {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        input: Input,
        framing: Framing,
        awaits_continue: bool,
        limits: &Limits,
    ) -> Self {
        let (left, length) = match framing {
            Framing::Length(length) => (BodyLeft::Length(length), Some(length)),
            Framing::Chunked => {
                (BodyLeft::Chunked(ChunkedDecoder::new(limits.trailer_bytes)), None)
            }
        };
        // A client that has sent a part of the body does not wait.
        let is_open = awaits_continue && input.is_empty();
        let expectation = is_open.then(|| Arc::new(Expectation::open()));
        let source = BodySource {
            stream: Arc::clone(stream),
            expectation: expectation.clone(),
            input,
            left,
            pace: Pace::new(limits),
            room: limits.body_bytes,
            most: limits.body_bytes,
            error: None,
        };
        let lent = Lent { source: Some(source), trailers: None };
        Incoming { length, shared: Arc::new(Mutex::new(lent)), expectation }
    }

    /// A second handle, with which the connection takes its input back.
    pub(crate) fn share(&self) -> Incoming {
        let expectation = self.expectation.clone();
        Incoming { length: self.length, shared: Arc::clone(&self.shared), expectation }
    }

    /// Prepares the body for the beginning of the response. Returns whether the next request can be
    /// found behind the body, as far as that is known: it cannot if the client may leave the body
    /// out, if there are more than `most` bytes that nobody will read, or if a read has failed.
    pub(crate) fn settle(&self, stream: &Stream, most: u64) -> io::Result<bool> {
        let is_held = Arc::strong_count(&self.shared) > 1;
        if let Some(expectation) = &self.expectation {
            if is_held {
                expectation.fulfil(stream)?;
            } else if expectation.close() {
                return Ok(false);
            }
        }
        // If another strand reads just now, it also finds out later.
        let Ok(lent) = self.shared.try_lock() else { return Ok(true) };
        Ok(lent.source.as_ref().is_none_or(|source| {
            let is_small = matches!(source.left, BodyLeft::Length(left) if left <= most)
                || matches!(source.left, BodyLeft::Chunked(_));
            source.error.is_none() && (is_held || is_small)
        }))
    }

    /// Ends all reads of this body when the connection ends: a handle that the program keeps must
    /// not keep the stream open.
    ///
    /// # Blocking
    /// While another strand reads, whose read ends at once.
    pub(crate) fn end(&self, stream: &Stream) {
        if let Ok(mut lent) = self.shared.try_lock() {
            lent.source = None;
            return;
        }
        // If this fails, the connection is gone, and the read fails as well.
        let _ = stream.shutdown(Shutdown::Read);
        self.take_back();
    }

    /// As [`take_back`](Self::take_back), but does not wait. None: another strand reads.
    pub(crate) fn try_take_back(&self) -> Option<BodySource> {
        self.shared.try_lock().ok()?.source.take()
    }

    /// Ends all reads of this body. None: this was called before.
    ///
    /// # Blocking
    /// While another strand reads.
    pub(crate) fn take_back(&self) -> Option<BodySource> {
        self.lent().source.take()
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    pub(super) fn set_limit(&self, most: u64) {
        if let Some(source) = &mut self.lent().source {
            let read = source.most - source.room;
            (source.most, source.room) = (most, most.saturating_sub(read));
        }
    }

    pub(super) fn take_trailers(&self) -> Option<HeaderMap> {
        self.lent().trailers.take()
    }

    pub(super) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let mut lent = self.lent();
        let source = lent.source.as_mut().ok_or(BodyError::Over)?;
        let read = source.read(buf)?;
        if read == 0
            && let BodyLeft::Chunked(decoder) = &mut source.left
            && let Some(trailers) = decoder.take_trailers()
        {
            lent.trailers = Some(trailers);
        }
        Ok(read)
    }
}

impl BodySource {
    /// Whether the whole body was read, so that the next bytes are those of the next request.
    pub(crate) fn is_at_end(&self) -> bool {
        self.error.is_none()
            && match &self.left {
                BodyLeft::Length(left) => *left == 0,
                BodyLeft::Chunked(decoder) => decoder.is_done(),
            }
    }

    /// Limits the time of all further reads: nobody needs the bytes.
    pub(crate) fn hurry(&mut self) {
        self.pace.end = Instant::now().checked_add(self.pace.grace);
    }

    /// The bytes behind the body.
    pub(crate) fn into_input(self) -> Input {
        self.input
    }

    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        self.read_some(buf).inspect_err(|error| self.error = BodyError::of(error))
    }

    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &self.left {
            BodyLeft::Length(left) if *left > self.room => {
                Err(BodyError::TooLarge { most: self.most }.into())
            }
            BodyLeft::Length(0) => Ok(0),
            BodyLeft::Length(_) => self.read_of_length(buf),
            BodyLeft::Chunked(_) => self.read_of_chunks(buf),
        }
    }

    fn read_of_length(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let BodyLeft::Length(left) = self.left else { return Ok(0) };
        let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buf = &mut buf[..most];
        let here = self.input.unused();
        let read = match here.len().min(buf.len()) {
            0 => self.receive(buf)?,
            length => {
                buf[..length].copy_from_slice(&here[..length]);
                self.input.consume(length);
                length
            }
        };
        self.left = BodyLeft::Length(left - read as u64);
        self.room -= read as u64;
        Ok(read)
    }

    fn read_of_chunks(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let BodyLeft::Chunked(decoder) = &mut self.left else { return Ok(0) };
            if decoder.is_done() {
                return Ok(0);
            }
            let step = decoder.advance(self.input.unused(), buf.len());
            let (used, found) = step.map_err(BodyError::from)?;
            match found {
                Found::Data(at) => {
                    let length = at.len();
                    buf[..length].copy_from_slice(&self.input.unused()[at]);
                    self.input.consume(used);
                    self.room = self
                        .room
                        .checked_sub(length as u64)
                        .ok_or(BodyError::TooLarge { most: self.most })?;
                    return Ok(length);
                }
                Found::End => {
                    self.input.consume(used);
                    return Ok(0);
                }
                Found::NeedsMore => {
                    self.input.consume(used);
                    self.receive_more()?;
                }
            }
        }
    }

    /// A function of its own, because its buffer would otherwise be in the frame of each read.
    #[inline(never)]
    fn receive_more(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        let received = self.receive(&mut piece)?;
        self.input.add_copied(&piece[..received]);
        Ok(())
    }

    /// Receives bytes from the stream.
    fn receive(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(expectation) = &self.expectation {
            expectation.fulfil(&self.stream)?;
        }
        self.stream.set_read_timeout(Some(self.pace.patience()?))?;
        let begin = Instant::now();
        let received = self.stream.read(buf);
        self.pace.add_wait(begin.elapsed());
        match received {
            Ok(0) => Err(ended_early()),
            Ok(received) => {
                self.pace.add(received);
                Ok(received)
            }
            Err(error) if is_timeout(&error) => Err(BodyError::TooSlow.into()),
            Err(error) => Err(error),
        }
    }
}

/// The error of a body whose end did not arrive: the client's fault, unless the handler is
/// cancelled, as it is before the server cuts the connection.
pub(crate) fn ended_early() -> io::Error {
    let truncated = BodyError::Truncated;
    cancel::check_cancelled().map_or_else(io::Error::from, |()| truncated.into())
}

/// Whether the read timeout has passed, and not a limit of the program.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        && !cancel::is_cancelled(error)
}

impl Pace {
    pub(crate) fn new(limits: &Limits) -> Self {
        Pace {
            waited: Duration::ZERO,
            received: 0,
            bytes_per_second: limits.body_bytes_per_second,
            grace: limits.body_grace,
            end: None,
        }
    }

    pub(crate) fn add(&mut self, received: usize) {
        self.received += received as u64;
    }

    pub(crate) fn add_wait(&mut self, waited: Duration) {
        self.waited += waited;
    }

    /// How long the next bytes may take.
    pub(crate) fn patience(&self) -> Result<Duration, BodyError> {
        let of_pace = match self.received.saturating_mul(1000).checked_div(self.bytes_per_second) {
            Some(earned) => {
                let most = self.grace.saturating_add(Duration::from_millis(earned));
                most.saturating_sub(self.waited)
            }
            // Any speed will do.
            None => Duration::from_secs(365 * 24 * 60 * 60),
        };
        let until_end = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = until_end.map_or(of_pace, |until_end| until_end.min(of_pace));
        if left.is_zero() { Err(BodyError::TooSlow) } else { Ok(left) }
    }
}

impl Read for Incoming {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Incoming::read(self, buf)
    }
}
