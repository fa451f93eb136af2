//! TLS over a stream: plaintext in and out, on any fiber, in both directions at once.
//!
//! # Protocol: three locks, none of which lets one direction wait for the other
//! | lock | kind | held by | while |
//! |---|---|---|---|
//! | `receiving` | of Ramie | a reader | it waits for bytes of the socket, and decrypts them |
//! | `sending` | of Ramie | a writer | it encrypts bytes, and waits until the socket takes them |
//! | `session` | of std | both | they encrypt or decrypt at most some records; never across a wait |
//!
//! Records must arrive in the order in which they were encrypted, and be decrypted in the order in
//! which they arrived. So a writer keeps `sending` from the encryption to the end of the write, and
//! a reader keeps `receiving` from the receive to the end of the decryption. `session` is locked
//! inside of either, and nothing else is locked or awaited inside of `session`. So a reader that
//! waits for the peer holds `receiving` alone, which no writer needs, and the reverse.
//!
//! A reader never writes, with one exception. What rustls wants to send because of received
//! records (the answer to a key update) goes out in front of the next write, which TLS allows. So
//! do the session tickets of TLS 1.3, which no client waits for: with the first response they cost
//! no write and no packet of their own. The exception is the alert after an error: the reader sends
//! it if `sending` is free at once; otherwise the writer that holds it is about to send bytes that
//! nobody will understand anyway.
//!
//! *The race to fear*: two records are encrypted in one order and sent in the other. It cannot
//! happen, because only the holder of `sending` takes ciphertext out of the session.
//!
//! A write that fails may have sent a part of a record. Nothing that follows could be decrypted, so
//! all later writes fail, too.
//!
//! # Buffers
//! Ciphertext is received in the runtime's buffers and sent from the spare ones, and plaintext that
//! nobody has read yet is in a spare one. So an idle connection has only what the session keeps.
//!
//! # The end of a stream
//! A peer that closes the socket without `close_notify` ends the stream as one that sends it.
//! That is safe here, because requests and their bodies, and the messages of WebSocket, have their
//! lengths in front: none of them is ended by the end of the stream.

use std::{
    io::{self, IoSlice, Read, Write},
    net::Shutdown,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ramie::{sync::Mutex as FiberMutex, time::Instant};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};

use super::{Input, Receiver, Socket, spare};

/// The plaintext of one record.
const PIECE: usize = 16 << 10;
/// Ciphertext of this size is sent, though more is to come: that of three pieces.
const LARGE: usize = 48 << 10;
/// Room for `LARGE` and the last piece. Buffers that grow by doubling would become too large to be
/// spare ones.
const ROOM: usize = LARGE + (1 << 10);

/// What a client gets that speaks HTTP without TLS.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 43\r\n\r\n\
    this port speaks HTTPS, and not plain HTTP\n";

// Each connection allocates one, and glibc allocates at larger alignments by splitting chunks.
const _: () = assert!(align_of::<TlsStream>() <= 16);

/// A stream over which TLS is spoken.
pub(crate) struct TlsStream {
    socket: Socket,
    session: Mutex<ServerConnection>,
    receiving: FiberMutex<Received>,
    sending: FiberMutex<Sending>,
    read_timeout: Mutex<Option<Duration>>,
}

#[derive(Default)]
struct Received {
    /// Plaintext that nobody has read yet.
    plain: Vec<u8>,
    /// How much of it was read.
    at: usize,
    is_at_end: bool,
}

#[derive(Default)]
struct Sending {
    /// A write has failed, or the last record was sent.
    is_over: bool,
}

impl TlsStream {
    pub(crate) fn new(socket: Socket, config: Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(TlsStream {
            socket,
            session: Mutex::new(session),
            receiving: FiberMutex::default(),
            sending: FiberMutex::default(),
            read_timeout: Mutex::new(None),
        })
    }

    /// The socket, for timeouts, shutdown, and bytes that are not encrypted.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Makes the handshake, whose bytes `receiver` receives; `begin` has arrived already. It may
    /// last as long as the client wants, so the caller sets a limit.
    pub(crate) fn shake_hands(
        &self,
        receiver: &mut Receiver<'_>,
        mut begin: Input,
    ) -> io::Result<()> {
        let mut receiving = lock_fiber(&self.receiving);
        let mut sending = lock_fiber(&self.sending);
        let mut is_first = true;
        loop {
            if !begin.is_empty() {
                if std::mem::take(&mut is_first) && begin.unused()[0].is_ascii_uppercase() {
                    self.socket.write_all(NOT_TLS)?;
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the client speaks plain HTTP instead of TLS",
                    ));
                }
                let decrypted = self.decrypt(begin.unused(), &mut receiving);
                if decrypted.is_err() || owes_flight(&self.session()) {
                    // An alert, if the handshake has failed.
                    let sent = self.send_own(&mut sending);
                    decrypted?;
                    sent?;
                }
                begin = Input::default();
            }
            if !self.session().is_handshaking() {
                return Ok(());
            }
            if receiving.is_at_end || !receiver.receive_as_they_are(&mut begin)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Looks at what the handshake has found.
    pub(crate) fn with_session<T>(&self, f: impl FnOnce(&ServerConnection) -> T) -> T {
        f(&self.session())
    }

    /// Waits for plaintext, whose ciphertext `receiver` receives, and adds it to the input.
    /// Returns false at the end of the stream.
    pub(crate) fn receive(
        &self,
        receiver: &mut Receiver<'_>,
        input: &mut Input,
    ) -> io::Result<bool> {
        let mut received = lock_fiber(&self.receiving);
        self.fill(receiver, &mut received)?;
        input.add_copied(received.unread());
        let is_some = !received.unread().is_empty();
        received.advance(usize::MAX);
        Ok(is_some)
    }

    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut received = lock_fiber(&self.receiving);
        self.fill(&mut Receiver::of_socket(&self.socket), &mut received)?;
        let length = received.unread().len().min(buf.len());
        buf[..length].copy_from_slice(&received.unread()[..length]);
        received.advance(length);
        Ok(length)
    }

    /// Waits until there is unread plaintext, or the end.
    fn fill(&self, receiver: &mut Receiver<'_>, received: &mut Received) -> io::Result<()> {
        let limit = self.read_timeout().map(|timeout| (timeout, Instant::now()));
        while received.unread().is_empty() && !received.is_at_end {
            if let Some((timeout, begin)) = limit {
                let left = timeout.saturating_sub(begin.elapsed());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.socket.set_read_timeout(Some(left))?;
            }
            let mut ciphertext = Input::default();
            if !receiver.receive_as_they_are(&mut ciphertext)? {
                received.is_at_end = true;
                return Ok(());
            }
            let decrypted = self.decrypt(ciphertext.unused(), received);
            if let Err(error) = decrypted {
                received.is_at_end = true;
                self.send_alert();
                return Err(error);
            }
        }
        Ok(())
    }

    fn decrypt(&self, mut ciphertext: &[u8], received: &mut Received) -> io::Result<()> {
        let mut session = self.session();
        while !ciphertext.is_empty() && !received.is_at_end {
            session.read_tls(&mut ciphertext)?;
            let state = session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let count = state.plaintext_bytes_to_read();
            if count > 0 {
                session.reader().read_exact(received.room(count))?;
            }
            received.is_at_end = state.peer_has_closed();
        }
        Ok(())
    }

    fn send_alert(&self) {
        if let Ok(mut sending) = self.sending.try_lock() {
            let _ = self.send_own(&mut sending);
            sending.is_over = true;
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(LARGE)];
        self.write_all(&[piece], &mut || {})?;
        Ok(piece.len())
    }

    pub(crate) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let first = parts.iter().find(|part| !part.is_empty());
        first.map_or(Ok(0), |part| self.write(part))
    }

    /// Writes all parts, by few system calls, and calls `progressed` each time that the client has
    /// made room for a part.
    pub(crate) fn write_all(
        &self,
        parts: &[&[u8]],
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        self.send_parts(parts, &mut lock_fiber(&self.sending), progressed)
    }

    /// Sends what the session wants to send by itself.
    fn send_own(&self, sending: &mut Sending) -> io::Result<()> {
        self.send_parts(&[], sending, &mut || {})
    }

    fn send_parts(
        &self,
        parts: &[&[u8]],
        sending: &mut Sending,
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        if sending.is_over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut ciphertext = Vec::new();
        spare::equip(&mut ciphertext);
        let sent = self.encrypt_and_send(parts, &mut ciphertext, progressed);
        spare::put(ciphertext);
        sending.is_over = sent.is_err();
        sent
    }

    fn encrypt_and_send(
        &self,
        parts: &[&[u8]],
        ciphertext: &mut Vec<u8>,
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        for piece in parts.iter().flat_map(|part| part.chunks(PIECE)) {
            if piece.len() == PIECE {
                ciphertext.reserve_exact(ROOM.saturating_sub(ciphertext.len()));
            }
            self.encrypt(piece, ciphertext)?;
            if ciphertext.len() >= LARGE {
                self.socket.write_pieces(ciphertext, progressed)?;
                ciphertext.clear();
                progressed();
            }
        }
        // What the session wants to send by itself, if there is no piece.
        self.encrypt(&[], ciphertext)?;
        self.socket.write_pieces(ciphertext, progressed)
    }

    fn encrypt(&self, piece: &[u8], ciphertext: &mut Vec<u8>) -> io::Result<()> {
        let mut session = self.session();
        // What waits already takes room in the session: each ticket has the client's certificates.
        take_ciphertext(&mut session, ciphertext)?;
        session.writer().write_all(piece)?;
        take_ciphertext(&mut session, ciphertext)
    }

    /// Tells the client that nothing follows (`close_notify`). Without it the client must assume
    /// that somebody has cut the stream.
    pub(crate) fn say_goodbye(&self) -> io::Result<()> {
        let mut sending = lock_fiber(&self.sending);
        if sending.is_over {
            return Ok(());
        }
        self.session().send_close_notify();
        let sent = self.send_own(&mut sending);
        sending.is_over = true;
        sent
    }

    /// The end of the write side is told to the client first. The other ends are for streams that
    /// are given up, and never wait.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how == Shutdown::Write {
            self.say_goodbye()?;
        }
        self.socket.shutdown(how)
    }

    /// As that of a socket: it counts for a whole read, however many fragments of a record arrive.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *self.read_timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
        self.socket.set_read_timeout(timeout)
    }

    fn read_timeout(&self) -> Option<Duration> {
        *self.read_timeout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, ServerConnection> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_ciphertext(session: &mut ServerConnection, ciphertext: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(ciphertext)?;
    }
    Ok(())
}

/// Whether the client may wait for what the session wants to send. No client waits for what follows
/// a handshake of TLS 1.3: session tickets, and answers to key updates.
fn owes_flight(session: &ServerConnection) -> bool {
    session.is_handshaking() || session.protocol_version() != Some(ProtocolVersion::TLSv1_3)
}

fn lock_fiber<T>(mutex: &FiberMutex<T>) -> ramie::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(ramie::sync::PoisonError::into_inner)
}

impl Received {
    fn unread(&self) -> &[u8] {
        &self.plain[self.at..]
    }

    /// Room for `count` more bytes, to be filled at once.
    fn room(&mut self, count: usize) -> &mut [u8] {
        spare::equip(&mut self.plain);
        let begin = self.plain.len();
        self.plain.resize(begin + count, 0);
        &mut self.plain[begin..]
    }

    /// Forgets `count` bytes at most. The memory goes to others once all bytes were read.
    fn advance(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.plain.len());
        if self.at == self.plain.len() {
            self.at = 0;
            spare::put(std::mem::take(&mut self.plain));
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        spare::put(std::mem::take(&mut self.plain));
    }
}

#[cfg(test)]
mod tests;
