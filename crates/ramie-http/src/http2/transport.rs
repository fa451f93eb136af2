//! The transport of hyper: channels to a fiber that reads the stream, and to one that writes it.
//!
//! Each channel has room for one buffer, so hyper reads no further ahead than that, and a client
//! that takes no bytes makes hyper wait with its writes, but not with its reads.
//!
//! hyper sees the end of the input one poll later than the fiber of the connection does. In
//! between, that fiber lets hyper send GOAWAY, because the server ends an idle connection by
//! shutting its read side down.
use std::{
    cell::Cell,
    future::Future,
    io, mem,
    net::Shutdown,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use ramie::{
    channel::{self, Receiver as ChannelReceiver, Sender},
    future::{RecvFuture, SendFuture},
};

use crate::io::{Input, Receiver, Stream, spare};

/// Output of this size is handed to the writer before more is taken.
const LARGE: usize = 64 << 10;

pub(super) struct Transport {
    arrived: Input,
    arriving: ChannelReceiver<Input>,
    next: RecvFuture<Input>,
    has_ended: Rc<Cell<bool>>,
    output: Vec<u8>,
    /// None once everything was handed to the writer for good.
    to_writer: Option<Sender<Vec<u8>>>,
    sending: Option<SendFuture<Vec<u8>>>,
}

/// Reads the stream, on a fiber.
pub(super) struct Reader {
    to_hyper: Sender<Input>,
}

/// Writes the stream, on a fiber.
pub(super) struct Writer {
    output: ChannelReceiver<Vec<u8>>,
}

impl Transport {
    /// A transport that has received `begin` already.
    pub(super) fn new(mut begin: Input, has_ended: &Rc<Cell<bool>>) -> (Self, Reader, Writer) {
        begin.copy();
        let (to_hyper, arriving) = channel::bounded(1);
        let (to_writer, output) = channel::bounded(1);
        let transport = Transport {
            arrived: begin,
            next: (&arriving).into_future(),
            arriving,
            has_ended: Rc::clone(has_ended),
            output: Vec::new(),
            to_writer: Some(to_writer),
            sending: None,
        };
        (transport, Reader { to_hyper }, Writer { output })
    }

    /// Hands the output to the writer.
    fn poll_hand_over(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(sending) = &mut self.sending {
                let sent = ready!(Pin::new(sending).poll(context));
                self.sending = None;
                sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            }
            if self.output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let writer = self.to_writer.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
            self.sending = Some(writer.send_async(mem::take(&mut self.output)));
        }
    }
}

impl Reader {
    pub(super) fn run(self, receiver: &mut Receiver<'_>) {
        loop {
            let mut input = Input::default();
            // hyper needs no reason: in either case the stream is over.
            let Ok(true) = receiver.receive(&mut input) else { return };
            // The runtime's buffer is for others while this one waits for hyper.
            input.copy();
            if self.to_hyper.send(input).is_err() {
                return;
            }
        }
    }
}

impl Writer {
    pub(super) fn run(self, stream: &Stream) {
        for output in &self.output {
            let written = stream.write_all(&output);
            spare::put(output);
            if let Err(error) = written {
                log::debug!("a connection of HTTP/2 has failed: {error}");
                // hyper then sees the end of the stream, and its next write fails.
                let _ = stream.socket().shutdown(Shutdown::Both);
                return;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
    }
}

impl Read for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.arrived.is_empty() {
            let received = ready!(Pin::new(&mut self.next).poll(context));
            self.next = (&self.arriving).into_future();
            match received {
                Ok(input) => self.arrived = input,
                Err(_) if !self.has_ended.replace(true) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(_) => return Poll::Ready(Ok(())),
            }
        }
        let length = self.arrived.unused().len().min(buffer.remaining());
        buffer.put_slice(&self.arrived.unused()[..length]);
        self.arrived.consume(length);
        Poll::Ready(Ok(()))
    }
}

impl Write for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.output.len() >= LARGE {
            ready!(self.poll_hand_over(context))?;
        }
        spare::equip(&mut self.output);
        self.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_hand_over(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_hand_over(context))?;
        self.to_writer = None;
        Poll::Ready(Ok(()))
    }
}
