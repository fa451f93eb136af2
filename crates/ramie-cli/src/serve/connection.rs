//! One connection's life, on a fiber of its own.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    time::{Duration, Instant},
};

use ramie::net::TcpStream;

use super::{
    house::Guest,
    http::{Exchange, Next},
};

/// How long, and for how many bytes, the peer may still talk after our last word.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS: usize = 64;

/// Serves until one side has had enough. An error of the connection is the peer's affair: there is
/// nobody to tell. So is a peer that keeps us waiting for longer than `patience`.
pub(super) fn serve(guest: &Guest, patience: Duration) {
    let _ = converse(guest, patience);
}

fn converse(guest: &Guest, patience: Duration) -> io::Result<()> {
    let mut stream = guest.stream();
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut exchange = Exchange::default();
    let mut received = guest.stream().recv_each();
    let mut deadline = Deadline::default();
    loop {
        if !exchange.is_between_requests() {
            deadline.heed(stream, patience)?;
        } else {
            deadline.lift(stream, patience)?;
            if !guest.rest() {
                return Ok(());
            }
        }
        let Some(bytes) = received.next().transpose()? else { return Ok(()) };
        guest.be_busy();
        let next = exchange.receive(&bytes, guest.is_asked_to_leave());
        drop(bytes);
        stream.write_all(exchange.answers())?;
        exchange.answers_are_sent();
        match next {
            Next::Read => {}
            Next::Close => return Ok(()),
            Next::CloseAfterRest => return linger(guest),
        }
    }
}

/// When a request that has begun must be here: a byte now and then earns it no more time. Most
/// come whole in one read, and no clock is asked.
#[derive(Default)]
struct Deadline(Option<Instant>);

impl Deadline {
    /// Bounds the next read by what is left.
    fn heed(&mut self, stream: &TcpStream, patience: Duration) -> io::Result<()> {
        let now = Instant::now();
        let left = self.0.get_or_insert(now + patience).saturating_duration_since(now);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))
    }

    /// The request was answered: the next read has all the time again.
    fn lift(&mut self, stream: &TcpStream, patience: Duration) -> io::Result<()> {
        match self.0.take() {
            Some(_) => stream.set_read_timeout(Some(patience)),
            None => Ok(()),
        }
    }
}

/// Ends our side and reads the rest: closing with unread bytes would reset the connection, and the
/// peer might lose our answer. Apart, so that its buffer is not in every connection's frame.
#[inline(never)]
fn linger(guest: &Guest) -> io::Result<()> {
    let mut stream = guest.stream();
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(LINGER))?;
    let mut rest = [0; 8 * 1024];
    for _ in 0..LINGER_READS {
        if stream.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}
