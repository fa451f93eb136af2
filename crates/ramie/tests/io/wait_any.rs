//! Waiting for several descriptors; and for descriptors, channels and strands together.

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    time::Duration,
};

use crate::common::everywhere;
use ramie::{
    cancel, channel, fiber,
    io::{self, PipeReader, PollFlags, Polled},
    os::unix::net::UnixStream,
    ring, select,
    sync::Event,
};

#[test]
fn one_of_many_becomes_ready() {
    everywhere(|| {
        let mut pipes: Vec<_> = (0..100).map(|_| io::pipe().unwrap()).collect();
        let mut last = pipes.pop().unwrap();
        fiber::scope(|s| {
            s.spawn(|| {
                fiber::yield_now();
                last.1.write_all(b"x").unwrap();
            });
            let mut polled: Vec<_> = pipes.iter().map(|(read, _)| Polled::readable(read)).collect();
            polled.push(Polled::readable(&last.0));
            assert_eq!(io::wait_any(&mut polled).unwrap(), 1);
            assert!(polled[99].is_ready());
            assert!(polled[..99].iter().all(|polled| !polled.is_ready()));
            // It is still there, and found at once.
            assert_eq!(io::wait_any(&mut polled).unwrap(), 1);
        });
        assert_eq!(last.0.read(&mut [0; 8]).unwrap(), 1);
    });
}

#[test]
fn a_descriptor_may_be_asked_for_both_ways() {
    everywhere(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        while ring::send(&ours, &[0; 4096], ring::SendFlags::DONTWAIT).is_ok() {}
        let wait = || {
            let mut polled = [Polled::readable(&ours), Polled::writable(&ours)];
            io::wait_any(&mut polled).unwrap();
            polled.map(|polled| polled.ready())
        };
        fiber::scope(|s| {
            let waits = s.spawn(wait);
            (&theirs).write_all(b"x").unwrap();
            assert_eq!(waits.join().unwrap(), [PollFlags::IN, PollFlags::empty()]);
            (&ours).read_exact(&mut [0]).unwrap();
            let waits = s.spawn(wait);
            theirs.shutdown(Shutdown::Write).unwrap();
            assert_eq!(waits.join().unwrap(), [PollFlags::IN, PollFlags::empty()]);
        });
        let mut buffer = vec![0; 1 << 20];
        while ring::recv(&theirs, &mut buffer, ring::RecvFlags::DONTWAIT).is_ok() {}
        assert_eq!(wait(), [PollFlags::IN, PollFlags::OUT]);
    });
}

#[test]
fn files_are_always_ready_and_ends_are_reported() {
    everywhere(|| {
        let (read, write) = io::pipe().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mut polled = [Polled::readable(&read), Polled::readable(&file)];
        assert_eq!(io::wait_any(&mut polled).unwrap(), 1);
        assert!(polled[1].is_ready());
        drop(write);
        let mut polled = [Polled::new(&file, PollFlags::empty()), Polled::readable(&read)];
        assert_eq!(io::wait_any(&mut polled).unwrap(), 1);
        assert_eq!(polled[1].ready(), PollFlags::HUP);
    });
}

#[test]
fn it_is_a_cancel_point_and_needs_something_to_wait_for() {
    everywhere(|| {
        assert_eq!(io::wait_any(&mut []).unwrap_err().kind(), ErrorKind::InvalidInput);
        let (first, _first) = io::pipe().unwrap();
        let (second, _second) = io::pipe().unwrap();
        let wait = || io::wait_any(&mut [Polled::readable(&first), Polled::readable(&second)]);
        let waited = cancel::with_timeout(Duration::from_millis(5), wait);
        let error = waited.unwrap_err().into_value().unwrap_err();
        assert!(cancel::is_cancelled(&error), "{error}");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[derive(Debug, PartialEq)]
enum Found {
    Message(u32),
    Bytes(usize),
    Ended,
    Closed,
}

/// Waits for a message, for bytes, or for the end of a strand, whichever comes first; takes one,
/// and leaves the others for the next time.
fn next(
    messages: &channel::Receiver<u32>,
    bytes: &mut PipeReader,
    job: Option<&mut fiber::JoinHandle<()>>,
) -> Found {
    let found = cancel::scope(|until_found| {
        fiber::scope(|s| {
            let (tell, told) = channel::bounded(2);
            let (is_readable, has_ended) = (tell.clone(), tell);
            let bytes = &*bytes;
            s.spawn(move || {
                if io::wait_any(&mut [Polled::readable(bytes)]).is_ok() {
                    _ = is_readable.send(Found::Bytes(0));
                }
            });
            s.spawn(move || match job.map(fiber::JoinHandle::wait) {
                Some(Ok(())) => _ = has_ended.send(Found::Ended),
                _ => drop(has_ended),
            });
            let found = select! {
                recv(messages) -> message => message.map_or(Found::Closed, Found::Message),
                recv(told) -> found => found.unwrap(),
            };
            until_found.cancel();
            found
        })
    });
    match found {
        Found::Bytes(_) => Found::Bytes(bytes.read(&mut [0; 64]).unwrap()),
        found => found,
    }
}

#[test]
fn channels_descriptors_and_strands_together_lose_nothing() {
    everywhere(|| {
        let (sender, messages) = channel::unbounded();
        let (mut bytes, mut writer) = io::pipe().unwrap();
        let gate = ramie::sync::Arc::new(Event::new());
        let theirs = ramie::sync::Arc::clone(&gate);
        let mut job =
            fiber::spawn(move || _ = theirs.wait_timeout(Duration::from_secs(60)).unwrap());
        // All at once, and each is found once.
        for number in 0..20 {
            sender.send(number).unwrap();
            writer.write_all(b"x").unwrap();
            let mut found = [number; 2].map(|_| next(&messages, &mut bytes, Some(&mut job)));
            found.sort_by_key(|found| matches!(found, Found::Bytes(_)));
            assert_eq!(found, [Found::Message(number), Found::Bytes(1)]);
        }
        gate.set();
        assert_eq!(next(&messages, &mut bytes, Some(&mut job)), Found::Ended);
        job.join().unwrap();
        drop(sender);
        assert_eq!(next(&messages, &mut bytes, None), Found::Closed);
    });
}
