//! A link and its peer, without the crates around a stream.

use std::{io::Write, task::Waker};

use ramie::{cancel::with_timeout, fiber, os::unix::net::UnixStream};

use super::*;

const CONTEXT: Context<'static> = Context::from_waker(Waker::noop());

/// Makes a link in own mode, and its peer.
fn link() -> (Link<UnixStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let link = Link::new(Arc::new(ours));
    link.set_own(true);
    (link, theirs)
}

fn write(link: &Link<UnixStream>, bytes: &[u8]) -> Option<usize> {
    match link.poll_write(&CONTEXT, bytes).expect("own mode") {
        Poll::Ready(count) => Some(count.unwrap()),
        Poll::Pending => None,
    }
}

fn read(link: &Link<UnixStream>) -> Poll<io::Result<Vec<u8>>> {
    let mut room = [0; 64];
    let mut buffer = ReadBuf::new(&mut room);
    link.poll_read(&mut buffer).expect("own mode").map_ok(|()| buffer.filled().to_vec())
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
fn what_was_collected_goes_first_though_there_is_no_room() {
    ramie::run(|| {
        let (link, peer) = link();
        let filler = [b'.'; 4096];
        while let Some(sent) = send_now(&*link.stream, &filler) {
            sent.unwrap();
        }
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

#[test]
fn a_send_that_fails_leaves_the_reason_of_the_server_to_the_next_reads() {
    ramie::run(|| {
        for reason in ["a reason", ""] {
            let (link, mut peer) = link();
            assert!(read(&link).is_pending());
            write(&link, b"request").unwrap();
            peer.write_all(reason.as_bytes()).unwrap();
            link.stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(link.wait().unwrap());
            if !reason.is_empty() {
                assert_eq!(read(&link).map(Result::unwrap), Poll::Ready(reason.into()));
            }
            let Poll::Ready(Err(error)) = read(&link) else { panic!("the send has not failed") };
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
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
