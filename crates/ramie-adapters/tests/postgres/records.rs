//! In the place of TLS: a layer that moves bytes in records, each of which has to arrive wholly. As
//! a library for TLS does, it reads its stream again until a record is complete.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready as ready_or_pending},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

const KEY: u8 = 0x5a;
const RECORD_BYTES: usize = 1000;

pub(crate) struct Records<S> {
    stream: S,
    /// Bytes of a record that has not arrived wholly.
    partial: Vec<u8>,
    /// The unread bytes of the last record, the next one last.
    plain: Vec<u8>,
    /// The unsent bytes of the last record.
    unsent: Vec<u8>,
}

fn seal(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().min(RECORD_BYTES)];
    let length = (bytes.len() as u16).to_be_bytes();
    length.into_iter().chain(bytes.iter().map(|byte| byte ^ KEY)).collect()
}

impl<S> Records<S> {
    fn new(stream: S) -> Self {
        Records { stream, partial: Vec::new(), plain: Vec::new(), unsent: Vec::new() }
    }

    /// Opens the next record, if it has arrived.
    fn open(&mut self) {
        if let [high, low, rest @ ..] = &self.partial[..] {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if rest.len() >= length {
                self.plain = rest[..length].iter().rev().map(|byte| byte ^ KEY).collect();
                self.partial.drain(..length + 2);
            }
        }
    }

    fn take(&mut self, limit: usize) -> Vec<u8> {
        let kept = self.plain.len().saturating_sub(limit);
        let mut taken = self.plain.split_off(kept);
        taken.reverse();
        taken
    }
}

/// The server's side.
impl<S: Read + Write> Records<S> {
    pub(crate) fn accept(mut stream: S) -> Self {
        // A client asks for TLS by eight bytes.
        stream.read_exact(&mut [0; 8]).unwrap();
        stream.write_all(b"S").unwrap();
        Records::new(stream)
    }
}

impl<S: Read> Read for Records<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            self.open();
            if self.plain.is_empty() {
                let mut bytes = [0; 4096];
                let count = self.stream.read(&mut bytes)?;
                if count == 0 {
                    return Ok(0);
                }
                self.partial.extend_from_slice(&bytes[..count]);
            }
        }
        let taken = self.take(buffer.len());
        buffer[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}

impl<S: Write> Write for Records<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let record = seal(bytes);
        self.stream.write_all(&record)?;
        Ok(record.len() - 2)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Records<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.plain.is_empty() {
            self.open();
            if self.plain.is_empty() {
                let mut bytes = [0; 4096];
                let mut received = ReadBuf::new(&mut bytes);
                ready_or_pending!(Pin::new(&mut self.stream).poll_read(context, &mut received))?;
                if received.filled().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                self.partial.extend_from_slice(received.filled());
            }
        }
        let taken = self.take(buffer.remaining());
        buffer.put_slice(&taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Records<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready_or_pending!(self.as_mut().poll_flush(context))?;
        self.unsent = seal(bytes);
        Poll::Ready(Ok(self.unsent.len() - 2))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let Records { stream, unsent, .. } = &mut *self;
            let count = ready_or_pending!(Pin::new(stream).poll_write(context, unsent))?;
            unsent.drain(..count);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready_or_pending!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Records<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// The connector of the client's side.
pub(crate) struct MakeRecords;

impl<S: AsyncRead + AsyncWrite + Unpin> MakeTlsConnect<S> for MakeRecords {
    type Stream = Records<S>;
    type TlsConnect = MakeRecords;
    type Error = Infallible;

    fn make_tls_connect(&mut self, _: &str) -> Result<MakeRecords, Infallible> {
        Ok(MakeRecords)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for MakeRecords {
    type Stream = Records<S>;
    type Error = Infallible;
    type Future = Ready<Result<Records<S>, Infallible>>;

    fn connect(self, stream: S) -> Self::Future {
        ready(Ok(Records::new(stream)))
    }
}
