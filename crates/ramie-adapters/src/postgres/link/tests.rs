//! A link and its peer, without the crates around a stream.

use std::{io::Write, pin::Pin, task::Waker};

use ramie::{cancel::with_timeout, fiber, os::unix::net::UnixStream};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{super::DrivenStream, *};

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Makes a link in own mode, and its peer.
fn link() -> (Link<UnixStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let link = Link::new(Arc::new(ours));
    link.set_own(true);
    (link, theirs)
}

fn write(link: &Link<UnixStream>, bytes: &[u8]) -> Option<usize> {
    match link.poll_write(&context(), bytes).expect("own mode") {
        Poll::Ready(count) => Some(count.unwrap()),
        Poll::Pending => None,
    }
}

fn read(link: &Link<UnixStream>) -> Poll<io::Result<Vec<u8>>> {
    let mut room = [0; 64];
    let mut buffer = ReadBuf::new(&mut room);
    link.poll_read(&mut buffer).expect("own mode").map_ok(|()| buffer.filled().to_vec())
}

/// Sends until the peer has to read first.
fn fill(stream: &UnixStream) {
    while let Some(sent) = send_now(stream, &[b'.'; 4096]) {
        sent.unwrap();
    }
}

/// Returns all that has arrived.
fn arrived(peer: &UnixStream) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 20];
    let count = receive_now(peer, &mut buffer).map_or(0, |count| count.unwrap());
    buffer.truncate(count);
    buffer
}

#[test]
fn writes_that_a_read_precedes_are_sent_together_by_the_wait() {
    ramie::run(|| {
        let (link, mut peer) = link();
        assert!(read(&link).is_pending());
        assert_eq!((write(&link, b"one "), write(&link, b"two")), (Some(4), Some(3)));
        assert!(arrived(&peer).is_empty());
        fiber::scope(|s| {
            s.spawn_local(|| {
                let mut request = [0; 7];
                peer.read_exact(&mut request).unwrap();
                peer.write_all(&request).unwrap();
            });
            assert!(link.wait().unwrap());
        });
        assert_eq!(read(&link).map(Result::unwrap), Poll::Ready(b"one two".to_vec()));
        assert!(read(&link).is_pending());
        write(&link, b"three").unwrap();
        assert_eq!(arrived(&peer), b"three", "after the first wait");
    });
}

#[test]
fn writes_that_no_wait_may_follow_are_sent_at_once() {
    ramie::run(|| {
        let (link, peer) = link();
        write(&link, b"no read before").unwrap();
        assert_eq!(arrived(&peer), b"no read before");
        assert!(read(&link).is_pending());
        link.send_at_once();
        write(&link, b"the last poll").unwrap();
        assert_eq!(arrived(&peer), b"the last poll");
        link.set_own(true);
        assert!(read(&link).is_pending());
        let large = [b'x'; BUFFER_BYTES + 1];
        assert_eq!(write(&link, &large), Some(large.len()));
        assert_eq!(arrived(&peer), large);
    });
}

#[test]
fn collected_bytes_go_first_although_there_is_no_room() {
    ramie::run(|| {
        let (link, peer) = link();
        fill(&link.stream);
        assert!(read(&link).is_pending());
        let collected = [b'c'; BUFFER_BYTES];
        write(&link, &collected).unwrap();
        assert_eq!(write(&link, b"direct"), None);
        let mut received = Vec::new();
        fiber::scope(|s| {
            let taking = s.spawn_local(|| {
                let mut all = Vec::new();
                while !all.ends_with(b"direct") {
                    let mut buffer = [0; 1024];
                    let count = (&peer).read(&mut buffer).unwrap();
                    all.extend_from_slice(&buffer[..count]);
                }
                all
            });
            while write(&link, b"direct").is_none() {
                assert!(link.wait().unwrap());
                assert!(read(&link).is_pending());
            }
            received = taking.join().unwrap();
        });
        let request = received.iter().position(|byte| *byte != b'.').unwrap();
        assert!(received[request..] == [&collected[..], b"direct"].concat());
    });
}

/// A stream of rows that has no room keeps the connection from reading meanwhile.
#[test]
fn bytes_that_own_mode_has_not_sent_go_first_in_helper_mode() {
    ramie::run(|| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        fill(&ours);
        let (mut stream, link) = DrivenStream::new(ours);
        let mut stream = Pin::new(&mut stream);
        link.set_own(true);
        let mut room = [0; 64];
        let mut row = ReadBuf::new(&mut room);
        assert!(stream.as_mut().poll_read(&mut context(), &mut row).is_pending());
        assert!(stream.as_mut().poll_write(&mut context(), b"request").is_ready());
        peer.write_all(b"row").unwrap();
        assert!(link.wait().unwrap());
        assert!(stream.as_mut().poll_read(&mut context(), &mut row).is_ready());
        assert!(!link.wait().unwrap(), "nothing reads");
        link.set_own(false);
        assert!(stream.as_mut().poll_flush(&mut context()).is_pending());
        assert!(stream.as_mut().poll_write(&mut context(), b" next").is_pending());
        assert!(!arrived(&peer).is_empty());
        assert!(stream.as_mut().poll_flush(&mut context()).is_ready());
        assert_eq!(arrived(&peer), b"request");
        assert!(stream.as_mut().poll_write(&mut context(), b" next").is_ready());
        assert_eq!(arrived(&peer), b" next");
    });
}

/// Reads until something else than bytes comes.
fn read_all(link: &Link<UnixStream>) -> (Vec<u8>, Poll<io::Result<()>>) {
    let mut all = Vec::new();
    loop {
        match read(link) {
            Poll::Ready(Ok(bytes)) if !bytes.is_empty() => all.extend(bytes),
            end => return (all, end.map_ok(drop)),
        }
    }
}

#[test]
fn a_send_that_fails_leaves_the_reason_of_the_server_to_the_next_reads() {
    ramie::run(|| {
        for (length, is_closed) in [(0, false), (0, true), (10, false), (20_000, true)] {
            for is_own in [true, false] {
                let reason = vec![b'r'; length];
                let (link, mut peer) = link();
                assert!(read(&link).is_pending());
                write(&link, b"request").unwrap();
                peer.write_all(&reason).unwrap();
                link.stream.shutdown(std::net::Shutdown::Write).unwrap();
                if is_closed {
                    drop(peer);
                }
                assert!(link.wait().unwrap());
                link.set_own(is_own);
                let (all, end) = read_all(&link);
                assert!(all == reason);
                let Poll::Ready(end) = end else { panic!("the send has not failed") };
                // The end of the stream comes before the error of the send.
                let expected = (!is_closed).then_some(ErrorKind::BrokenPipe);
                assert_eq!(end.err().map(|error| error.kind()), expected);
            }
        }
    });
}

#[test]
fn a_wait_that_is_cancelled_says_so() {
    ramie::run(|| {
        let (link, _peer) = link();
        assert!(read(&link).is_pending());
        write(&link, b"request").unwrap();
        let waited = with_timeout(std::time::Duration::from_millis(10), || link.wait());
        assert!(waited.is_err());
    });
}
