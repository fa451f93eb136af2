//! The stream below tokio-postgres.

use std::{
    fmt,
    io::{self, Read},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ramie_futures::{Io, Socket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::link::{Drive, Link};

/// The stream over which a connection to PostgreSQL runs, and which a TLS connector gets.
pub struct DrivenStream<S> {
    /// For polls in helper mode.
    io: Io<S>,
    link: Arc<Link<S>>,
}

impl<S: Socket> DrivenStream<S>
where
    for<'a> &'a S: Read,
{
    pub(super) fn new(stream: S) -> (Self, Arc<dyn Drive>) {
        let stream = Arc::new(stream);
        let link = Arc::new(Link::new(Arc::clone(&stream)));
        (DrivenStream { io: stream.into(), link: Arc::clone(&link) }, link)
    }
}

impl<S: Socket> DrivenStream<S> {
    /// Sends in helper mode the bytes that own mode has collected and not sent. tokio-postgres
    /// flushes in each poll that waits for a request, also if it has nothing to write.
    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut unsent = self.link.take_unsent()?;
        while !unsent.is_empty() {
            match Pin::new(&mut self.io).poll_write(context, &unsent) {
                Poll::Ready(sent) => drop(unsent.drain(..sent?)),
                Poll::Pending => {
                    self.link.put_unsent(unsent);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncRead for DrivenStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.link.poll_read(buffer) {
            Some(polled) => polled,
            None => Pin::new(&mut self.io).poll_read(context, buffer),
        }
    }
}

impl<S: Socket> AsyncWrite for DrivenStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.link.poll_write(context, bytes) {
            Some(polled) => polled,
            None => {
                ready!(self.poll_unsent(context))?;
                Pin::new(&mut self.io).poll_write(context, bytes)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_unsent(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<S: fmt::Debug> fmt::Debug for DrivenStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DrivenStream").field(&self.io).finish()
    }
}
