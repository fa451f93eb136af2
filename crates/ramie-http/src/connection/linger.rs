//! The last steps before the server closes a connection.
//!
//! Closing a socket with unread input resets the connection, and the client could lose the last
//! response. So the write side is shut down, and the rest of the input is read, until the client
//! has closed its side, pauses, or has had its time.

use std::{io, net::Shutdown, time::Duration};

use ramie::time::Instant;

use crate::io::{Input, Receiver, Socket};

/// How long the client may pause.
const PAUSE: Duration = Duration::from_secs(1);
/// How many bytes are read, because a fast client could otherwise keep a CPU busy with them.
const MOST: usize = 8 << 20;

/// Reads for `time` at most. Errors do not matter, because nothing is left to be done.
///
/// A stream of TLS must have said goodbye before, because this shuts the socket down.
///
/// Not inlined, because its variables would otherwise be in every connection's frame.
#[inline(never)]
pub(crate) fn linger(socket: &Socket, receiver: &mut Receiver<'_>, time: Duration) {
    let _ = read_rest(socket, receiver, time);
}

fn read_rest(socket: &Socket, receiver: &mut Receiver<'_>, time: Duration) -> io::Result<()> {
    socket.shutdown(Shutdown::Write)?;
    let begin = Instant::now();
    let mut read = 0;
    while read < MOST {
        let left = time.saturating_sub(begin.elapsed()).min(PAUSE);
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        // The bytes are discarded, so TLS need not decrypt them.
        let mut rest = Input::default();
        if !receiver.receive_as_they_are(&mut rest)? {
            break;
        }
        read += rest.unused().len();
    }
    Ok(())
}
