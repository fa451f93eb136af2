//! hyper's traits.
#![allow(unsafe_code)]

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::{Io, Socket};

impl<S: Socket> Read for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(self.poll_receive(context, buffer.initialize_unfilled()))?;
        // SAFETY: the call above has initialized the unfilled part.
        unsafe { buffer.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> Write for Io<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down()
    }
}
