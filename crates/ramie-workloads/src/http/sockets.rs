//! The calls by which a server's strands use their sockets: those of Ramie on fibers, those of std
//! on threads.

use std::{
    io::{self, IoSlice, Read, Write},
    net,
    os::fd::AsFd,
};

use crate::{OnFibers, OnThreads};

/// The calls by which a kind of strand serves connections.
pub trait Sockets {
    /// A listening socket.
    type Listener: From<net::TcpListener> + AsFd + Send + Sync + 'static;
    /// A connection.
    type Connection: Send + 'static;

    /// Waits for a connection and accepts it.
    fn accept(listener: &Self::Listener) -> io::Result<Self::Connection>;
    /// Calls `take` with the bytes of each receive, until it returns false or the peer has closed
    /// its side.
    fn receive_each(
        connection: &Self::Connection,
        take: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()>;
    /// Writes the bytes of all slices, by as few calls as the kernel needs.
    fn write_all_vectored(
        connection: &Self::Connection,
        slices: &mut [IoSlice<'_>],
    ) -> io::Result<()>;
}

impl Sockets for OnFibers {
    type Listener = ramie::net::TcpListener;
    type Connection = ramie::net::TcpStream;

    fn accept(listener: &Self::Listener) -> io::Result<Self::Connection> {
        let (connection, _) = listener.accept()?;
        connection.set_nodelay(true)?;
        Ok(connection)
    }

    #[inline]
    fn receive_each(
        connection: &Self::Connection,
        mut take: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        for bytes in connection.recv_each() {
            if !take(&bytes?)? {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn write_all_vectored(
        connection: &Self::Connection,
        slices: &mut [IoSlice<'_>],
    ) -> io::Result<()> {
        write_all_vectored(connection, slices)
    }
}

/// How much a thread receives at once.
const BUFFER: usize = 8 * 1024;

impl Sockets for OnThreads {
    type Listener = net::TcpListener;
    type Connection = net::TcpStream;

    fn accept(listener: &Self::Listener) -> io::Result<Self::Connection> {
        let (connection, _) = listener.accept()?;
        connection.set_nodelay(true)?;
        Ok(connection)
    }

    fn receive_each(
        mut connection: &Self::Connection,
        mut take: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut buffer = [0; BUFFER];
        loop {
            match connection.read(&mut buffer)? {
                0 => return Ok(()),
                count if take(&buffer[..count])? => {}
                _ => return Ok(()),
            }
        }
    }

    fn write_all_vectored(
        connection: &Self::Connection,
        slices: &mut [IoSlice<'_>],
    ) -> io::Result<()> {
        write_all_vectored(connection, slices)
    }
}

#[inline]
fn write_all_vectored(mut writer: impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Empty slices at the front would make an empty write.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let written = match &*slices {
            [one] => writer.write(one)?,
            many => writer.write_vectored(many)?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{IoSlice, Write, io, write_all_vectored};

    /// Takes at most this many bytes by each call.
    struct Slow(Vec<u8>, usize);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_bytes_are_written_in_order_by_short_writes() {
        for count in [1, 2, 3, 100] {
            let mut slow = Slow(Vec::new(), count);
            let slices = &mut [b"".as_slice(), b"head", b"", b"the body", b""].map(IoSlice::new);
            write_all_vectored(&mut slow, slices).unwrap();
            assert_eq!(slow.0, b"headthe body", "{count}");
        }
        let none = &mut [IoSlice::new(b"x")];
        let stuck = write_all_vectored(&mut Slow(Vec::new(), 0), none);
        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::WriteZero);
        write_all_vectored(&mut Slow(Vec::new(), 0), &mut []).unwrap();
    }
}
