//! Bodies of HTTP/2: hyper's as readers, and handlers' as hyper's.

use std::{
    future::{Future, poll_fn},
    io::{self, Read},
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use hyper::body::{Body as HyperBody, Frame, Incoming, SizeHint};
use ramie::{
    cancel::{self, CancelHandle},
    channel::{self, Receiver, SendTimeoutError, Sender},
    future::{RecvFuture, block_on_or_cancelled},
    time::Instant,
};

use super::{exchange::CancelOnDrop, shared::Unsent};
use crate::{
    body::{ArrivingBody, BodyError, BodyKind, BodySink, BodyWriter, Pace, ended_early},
    h1::chunked,
    limits::Limits,
};

/// The size of the pieces in which a body is written.
pub(super) const PIECE: usize = 16 << 10;
/// The size of pieces that need not be copied.
const LARGE_PIECE: usize = 64 << 10;

/// The body of a request, which hyper receives.
pub(super) struct RequestBody {
    incoming: Incoming,
    piece: Bytes,
    trailers: Option<HeaderMap>,
    pace: Pace,
    /// Bytes that may still come before the body is too large.
    room: u64,
    most: u64,
    trailer_bytes: usize,
    is_at_end: bool,
    error: Option<BodyError>,
    /// The scope of the connection.
    until_end: CancelHandle,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, limits: &Limits, until_end: CancelHandle) -> Self {
        RequestBody {
            incoming,
            piece: Bytes::new(),
            trailers: None,
            pace: Pace::new(limits),
            room: limits.body_bytes,
            most: limits.body_bytes,
            trailer_bytes: limits.trailer_bytes,
            is_at_end: false,
            error: None,
            until_end,
        }
    }

    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.length().is_some_and(|length| length > self.most) {
            return Err(BodyError::TooLarge { most: self.most }.into());
        }
        while self.piece.is_empty() && !self.is_at_end {
            match self.next_frame()?.map(Frame::into_data) {
                None => self.is_at_end = true,
                Some(Ok(piece)) => {
                    self.pace.add(piece.len());
                    let room = self.room.checked_sub(piece.len() as u64);
                    self.room = room.ok_or(BodyError::TooLarge { most: self.most })?;
                    self.piece = piece;
                }
                Some(Err(frame)) => {
                    let trailers = frame.into_trailers().ok();
                    if let Some(trailers) = &trailers {
                        check_trailers(trailers, self.trailer_bytes)?;
                    }
                    self.trailers = trailers;
                }
            }
        }
        let length = self.piece.len().min(buf.len());
        self.piece.copy_to_slice(&mut buf[..length]);
        Ok(length)
    }

    fn next_frame(&mut self) -> io::Result<Option<Frame<Bytes>>> {
        let patience = self.pace.patience()?;
        let next = poll_fn(|context| Pin::new(&mut self.incoming).poll_frame(context));
        let begin = Instant::now();
        let (received, is_late) =
            match cancel::with_timeout(patience, || block_on_or_cancelled(next)) {
                Ok(received) => (received, false),
                Err(elapsed) => (elapsed.into_value(), true),
            };
        self.pace.add_wait(begin.elapsed());
        match received {
            Ok(Some(Ok(frame))) => Ok(Some(frame)),
            Ok(None) => Ok(None),
            Ok(Some(Err(_))) if self.until_end.is_cancelled() => Err(ended_early()),
            // The client has reset the stream, or has broken the protocol.
            Ok(Some(Err(_))) => Err(BodyError::Truncated.into()),
            Err(_) if is_late && cancel::check_cancelled().is_ok() => {
                Err(BodyError::TooSlow.into())
            }
            Err(cancelled) => Err(cancelled.into()),
        }
    }
}

impl Read for RequestBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        self.read_some(buf).inspect_err(|error| self.error = BodyError::of(error))
    }
}

impl ArrivingBody for RequestBody {
    fn length(&self) -> Option<u64> {
        // hyper counts what is left of the announced length.
        let left = self.incoming.size_hint().exact()?;
        Some(left + (self.most - self.room))
    }

    fn set_limit(&mut self, most: u64) {
        let read = self.most - self.room;
        (self.most, self.room) = (most, most.saturating_sub(read));
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}

/// The rules of HTTP/1.1, where a field has a line.
fn check_trailers(trailers: &HeaderMap, most: usize) -> Result<(), BodyError> {
    let lines = trailers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if trailers.len() > chunked::TRAILERS_MOST || lines.sum::<usize>() > most {
        return Err(BodyError::TrailersTooLarge);
    }
    match trailers.keys().all(|name| chunked::may_be_trailer(name.as_str())) {
        true => Ok(()),
        false => Err(BodyError::Malformed(chunked::FIELD_OF_HEAD)),
    }
}

type FrameOfResponse = io::Result<Frame<Bytes>>;

/// The body of a response, from which hyper takes frames.
pub(super) struct ResponseBody {
    frames: FramesToSend,
    /// The announced number of bytes.
    length: Option<u64>,
    handler: Option<CancelOnDrop>,
    pub(super) unsent: Option<Rc<Unsent>>,
}

/// A part of a body, which keeps the response counted until hyper has sent it.
pub(super) struct Piece {
    bytes: Bytes,
    unsent: Option<Rc<Unsent>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(unsent) = &self.unsent {
            unsent.note_progress();
        }
    }
}

enum FramesToSend {
    Full(Bytes),
    Written {
        receiver: Receiver<FrameOfResponse>,
        next: RecvFuture<FrameOfResponse>,
        is_whole: Arc<AtomicBool>,
    },
    None,
}

impl ResponseBody {
    pub(super) fn full(bytes: Bytes) -> Self {
        let length = Some(bytes.len() as u64);
        let frames = if bytes.is_empty() { FramesToSend::None } else { FramesToSend::Full(bytes) };
        ResponseBody { frames, length, handler: None, unsent: None }
    }

    /// If the body is dropped before its end, the handler that writes it is cancelled.
    pub(super) fn cancel_if_dropped(&mut self, handler: CancelOnDrop) {
        match self.frames {
            FramesToSend::Written { .. } => self.handler = Some(handler),
            // The handler has ended.
            _ => handler.forget(),
        }
    }

    fn end(&mut self) {
        self.frames = FramesToSend::None;
        if let Some(handler) = self.handler.take() {
            handler.forget();
        }
    }
}

impl HyperBody for ResponseBody {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Piece>>>> {
        let frame = match &mut self.frames {
            FramesToSend::None => None,
            FramesToSend::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.frames = FramesToSend::None;
                Some(Ok(Frame::data(bytes)))
            }
            FramesToSend::Written { receiver, next, is_whole } => {
                let received = ready!(Pin::new(&mut *next).poll(context));
                *next = (&*receiver).into_future();
                match received {
                    Ok(frame) => Some(frame),
                    // Acquire: pairs with the Release in `Frames::write`.
                    Err(_) if is_whole.load(Ordering::Acquire) => None,
                    // Otherwise the client would take what has arrived for the whole.
                    Err(_) => Some(Err(io::Error::other("a body has failed"))),
                }
            }
        };
        if frame.is_none() {
            self.end();
        }
        let unsent = &self.unsent;
        let to_send = |bytes| Piece { bytes, unsent: unsent.clone() };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(to_send))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.frames, FramesToSend::None)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// Writes the body of a response, on the fiber of its handler.
pub(super) struct Frames {
    to_hyper: Sender<FrameOfResponse>,
    piece: Vec<u8>,
    trailers: Option<HeaderMap>,
    write_timeout: Duration,
    /// Set before the channel is closed, if all was sent.
    is_whole: Arc<AtomicBool>,
}

impl Frames {
    pub(super) fn new(length: Option<u64>, write_timeout: Duration) -> (Self, ResponseBody) {
        let (to_hyper, receiver) = channel::bounded(1);
        let next = (&receiver).into_future();
        let is_whole = Arc::new(AtomicBool::new(false));
        let frames = FramesToSend::Written { receiver, next, is_whole: Arc::clone(&is_whole) };
        let frames_of =
            Frames { to_hyper, piece: Vec::new(), trailers: None, write_timeout, is_whole };
        (frames_of, ResponseBody { frames, length, handler: None, unsent: None })
    }

    /// Writes the whole body. If that fails, hyper resets the stream, so that the client notices.
    pub(super) fn write(mut self, kind: BodyKind, length: Option<u64>) {
        let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.write_kind(kind, length)
        }));
        let written = written.unwrap_or_else(|_| Err(io::Error::other("a body has panicked")));
        match written {
            Ok(()) => self.is_whole.store(true, Ordering::Release),
            // If a client that takes no bytes is not told now, it is when it takes them.
            Err(error) => {
                let _ = self.to_hyper.send_timeout(Err(error), self.write_timeout);
            }
        }
    }

    fn write_kind(&mut self, kind: BodyKind, length: Option<u64>) -> io::Result<()> {
        match kind {
            BodyKind::Write(write) => write(&mut BodyWriter::new(self))?,
            BodyKind::Full(mut bytes) => {
                while bytes.len() > LARGE_PIECE {
                    let piece = bytes.split_to(LARGE_PIECE);
                    self.send(Frame::data(piece))?;
                }
                // hyper keeps the last piece until the client takes it, however long that takes. It
                // is copied, because it would keep the memory of the whole body.
                self.send(Frame::data(Bytes::copy_from_slice(&bytes)))?;
            }
            kind => self.copy(crate::body::Body(kind), length)?,
        }
        self.flush()?;
        match self.trailers.take() {
            Some(trailers) => {
                let fields = trailers.iter().map(|(name, value)| (name.clone(), value.clone()));
                let fields = fields.filter(|(name, _)| chunked::may_be_trailer(name.as_str()));
                self.send(Frame::trailers(fields.collect()))
            }
            None => Ok(()),
        }
    }

    fn copy(&mut self, mut reader: impl Read, length: Option<u64>) -> io::Result<()> {
        let mut left = length;
        loop {
            let most = left.map_or(PIECE, |left| PIECE.min(usize::try_from(left).unwrap_or(PIECE)));
            if most == 0 {
                return Ok(());
            }
            let mut piece = vec![0; most];
            let read = match reader.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            match (read, &mut left) {
                (0, None) => return Ok(()),
                (0, Some(_)) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the reader of a response has fewer bytes than its length",
                    ));
                }
                (_, Some(left)) => *left -= read as u64,
                (_, None) => {}
            }
            piece.truncate(read);
            self.send(Frame::data(piece.into()))?;
        }
    }

    fn send(&mut self, frame: Frame<Bytes>) -> io::Result<()> {
        self.to_hyper.send_timeout(Ok(frame), self.write_timeout).map_err(|error| {
            io::Error::from(match error {
                SendTimeoutError::Timeout(_) => io::ErrorKind::TimedOut,
                _ => io::ErrorKind::BrokenPipe,
            })
        })
    }
}

impl BodySink for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() < PIECE { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        self.send(Frame::data(piece.into()))
    }

    fn set_trailers(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }
}
