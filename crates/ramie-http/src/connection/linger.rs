//! The last steps before the server closes a connection.
//!
//! Closing a socket with unread input resets the connection, and the client could lose the last
//! response. So the write side is shut down, and the rest of the input is read, until the client
//! has closed its side, pauses, or has had its time.

use std::{io, net::Shutdown, time::Duration};

use ramie::time::Instant;

use crate::io::Stream;

/// How long the client may pause.
const PAUSE: Duration = Duration::from_secs(1);
/// How many bytes are read, because a fast client could otherwise keep a CPU busy with them.
const MOST: usize = 8 << 20;

/// Reads for `time` at most. Errors do not matter, because nothing is left to be done.
///
/// A function of its own, because its buffer would otherwise be in every connection's frame.
#[inline(never)]
pub(crate) fn linger(stream: &Stream, time: Duration) {
    let _ = read_rest(stream, time);
}

fn read_rest(stream: &Stream, time: Duration) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let begin = Instant::now();
    let mut rest = [0; 16 << 10];
    let mut read = 0;
    while read < MOST {
        let left = time.saturating_sub(begin.elapsed()).min(PAUSE);
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut rest)? {
            0 => break,
            length => read += length,
        }
    }
    Ok(())
}
