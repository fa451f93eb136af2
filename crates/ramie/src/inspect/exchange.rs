//! The exchange with a client of the socket: its request, and the bytes of its answer, each within
//! its time.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use ramie_driver::sys::{self, Errno, RecvFlags, SendFlags};

/// How long the thread waits for a request.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(2);
/// The most bytes of a request, its line break included.
const MAX_REQUEST: usize = 512;
/// How long a client may take nothing of its answer.
pub(super) const PAUSE: Duration = Duration::from_secs(5);
/// How long a client may take for its whole answer.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(60);

/// Receives a line, without its line break.
pub(super) fn receive(client: &OwnedFd) -> io::Result<Vec<u8>> {
    let end = Instant::now() + REQUEST_TIME;
    let mut line = Vec::new();
    loop {
        let mut room = [0; MAX_REQUEST];
        let left = end.saturating_duration_since(Instant::now());
        if !sys::wait_until_ready(client, sys::POLL_IN, left)? {
            return Err(Errno::TIMEDOUT.into());
        }
        match sys::recv(client, &mut room[line.len()..], RecvFlags::empty()) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => line.extend_from_slice(&room[line.len()..line.len() + len]),
            Err(error) if is_for_now(&error) => {}
            Err(error) => return Err(error),
        }
        if let Some(len) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(len);
            return Ok(line);
        }
        if line.len() == MAX_REQUEST {
            // Not a request.
            return Ok(line);
        }
    }
}

/// Sends the bytes within [`ANSWER_TIME`].
pub(super) fn send(client: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    send_until(client, bytes, Instant::now() + ANSWER_TIME)
}

/// Sends the bytes until that moment, unless the client takes nothing for [`PAUSE`].
pub(super) fn send_until(client: &OwnedFd, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if !sys::wait_until_ready(client, sys::POLL_OUT, left.min(PAUSE))? {
            return Err(Errno::TIMEDOUT.into());
        }
        match sys::send(client, bytes, SendFlags::empty()) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if is_for_now(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::unix::net::UnixStream,
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::{Duration, Instant},
    };

    use ramie_driver::sys::Errno;

    use super::send_until;

    /// It takes a byte again and again, so it never pauses.
    #[test]
    fn a_client_that_reads_slowly_gets_no_more_after_the_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let _ = theirs.read(&mut [0]);
                }
            });
            // Byte by byte, this would take a minute.
            let bytes = vec![0; 100 << 20];
            let start = Instant::now();
            let sent = send_until(&ours.into(), &bytes, start + Duration::from_millis(50));
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(sent.unwrap_err().raw_os_error(), Some(Errno::TIMEDOUT.raw_os_error()));
            assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        });
    }
}
