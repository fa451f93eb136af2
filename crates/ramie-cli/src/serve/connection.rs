//! One connection's life, on a fiber of its own.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    time::Duration,
};

use super::{
    house::Guest,
    http::{Exchange, Next},
};

/// How long, and for how many bytes, the peer may still talk after our last word.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS: usize = 64;

/// Serves until one side has had enough. An error of the connection is the peer's affair: there is
/// nobody to tell.
pub(super) fn serve(guest: &Guest) {
    let _ = converse(guest);
}

fn converse(guest: &Guest) -> io::Result<()> {
    let mut stream = guest.stream();
    let mut exchange = Exchange::new();
    loop {
        if exchange.is_between_requests() && !guest.rest() {
            return Ok(());
        }
        let count = stream.read(exchange.space())?;
        if count == 0 {
            return Ok(());
        }
        guest.be_busy();
        let next = exchange.answer(count, guest.is_asked_to_leave());
        stream.write_all(exchange.answers())?;
        exchange.answers_are_sent();
        match next {
            Next::Read => {}
            Next::Close => return Ok(()),
            Next::CloseAfterRest => return linger(guest),
        }
    }
}

/// Ends our side and reads the rest: closing with unread bytes would reset the connection, and the
/// peer might lose our answer.
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
