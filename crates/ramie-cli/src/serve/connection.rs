//! Serves one connection, on a fiber of its own.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    sync::LazyLock,
    time::{Duration, Instant},
};

use ramie::net::TcpStream;
use ramie_workloads::http::{AfterAnswers, Exchange, Page};

use super::connections::Connection;

/// How long, and for how many reads, the peer may still send after the last answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS: usize = 64;

static PAGE: LazyLock<Page> = LazyLock::new(Page::hello);

/// Serves until either side closes the connection. Errors and timeouts are dropped, because they
/// concern the peer only and nothing in the server depends on them.
pub(super) fn serve(connection: &Connection, timeout: Duration) {
    let _ = converse(connection, timeout);
}

fn converse(connection: &Connection, timeout: Duration) -> io::Result<()> {
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut exchange = Exchange::default();
    let mut received = connection.stream().recv_each();
    let mut deadline = Deadline::default();
    loop {
        if !exchange.is_between_requests() {
            deadline.heed(stream, timeout)?;
        } else {
            deadline.lift(stream, timeout)?;
            if !connection.set_idle() {
                return Ok(());
            }
        }
        let Some(bytes) = received.next().transpose()? else { return Ok(()) };
        connection.set_busy();
        let next = exchange.receive(&bytes, connection.is_stopping(), &PAGE);
        drop(bytes);
        for part in exchange.answers(&PAGE).flatten() {
            stream.write_all(part)?;
        }
        exchange.answers_are_sent();
        match next {
            AfterAnswers::Read => {}
            AfterAnswers::Close => return Ok(()),
            AfterAnswers::CloseAfterRest => return linger(connection),
        }
    }
}

/// The deadline of a request that has arrived in part. Further bytes do not extend it. The clock is
/// read only for requests that arrive in several reads, which is rare.
#[derive(Default)]
struct Deadline(Option<Instant>);

impl Deadline {
    /// Limits the next read to the time that is left.
    fn heed(&mut self, stream: &TcpStream, timeout: Duration) -> io::Result<()> {
        let now = Instant::now();
        let left = self.0.get_or_insert(now + timeout).saturating_duration_since(now);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))
    }

    /// Gives the next read the whole timeout again, because the request has been answered.
    fn lift(&mut self, stream: &TcpStream, timeout: Duration) -> io::Result<()> {
        match self.0.take() {
            Some(_) => stream.set_read_timeout(Some(timeout)),
            None => Ok(()),
        }
    }
}

/// Shuts down the write side and reads the rest of the input. Closing a socket with unread input
/// resets the connection, so the peer could lose the answer. A function of its own, because its
/// buffer would otherwise be in every connection's stack frame.
#[inline(never)]
fn linger(connection: &Connection) -> io::Result<()> {
    let mut stream = connection.stream();
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
