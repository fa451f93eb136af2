//! Streams that leave their runtime while a poll is pending: `run` returns, and the next poll fails
//! with the reason why its predecessor did not wait.

mod common;

use std::{
    io::Write,
    net::Shutdown,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
    time::Duration,
};

use ramie::{Runtime, Strands, cancel, fiber, future::block_on, os::unix::net::UnixStream};
use ramie_futures::Io;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

type Stream = Io<UnixStream>;

/// A read of one byte, polled once.
fn poll_once(stream: &mut Stream) -> Poll<std::io::Result<()>> {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer)
}

fn pending() -> (Stream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut ours = Io::new(ours);
    assert!(poll_once(&mut ours).is_pending());
    // The helper waits.
    fiber::sleep(Duration::from_millis(2));
    (ours, theirs)
}

fn check((mut ours, mut theirs): (Stream, UnixStream)) {
    let Poll::Ready(Err(error)) = poll_once(&mut ours) else { panic!("it waits on") };
    assert!(cancel::is_cancelled(&error), "{error}");
    assert!(error.to_string().contains("the runtime in which this call waited has ended"));
    // From here on the stream works as usual, and no byte is lost.
    theirs.write_all(b"late").unwrap();
    theirs.shutdown(Shutdown::Both).unwrap();
    let mut text = String::new();
    block_on(ours.read_to_string(&mut text)).unwrap();
    assert_eq!(text, "late");
}

fn runtimes(f: impl Fn(&Runtime)) {
    for driver in common::drivers() {
        for (strands, workers) in
            [(Strands::Fibers, 1), (Strands::Fibers, 2), (Strands::Threads, 1)]
        {
            let builder = Runtime::builder().driver(driver).strands(strands).workers(workers);
            f(&builder.build().unwrap());
        }
    }
}

#[test]
fn a_stream_that_is_carried_out_of_run() {
    common::in_child("a_stream_that_is_carried_out_of_run", &[], || {
        runtimes(|runtime| check(runtime.run(pending)));
        runtimes(|runtime| check(runtime.run(|| fiber::spawn(pending).join().unwrap())));
    });
}

#[test]
fn a_stream_that_lies_in_a_static() {
    static POOL: Mutex<Option<(Stream, UnixStream)>> = Mutex::new(None);
    common::in_child("a_stream_that_lies_in_a_static", &[], || {
        runtimes(|runtime| {
            runtime.run(|| {
                drop(fiber::spawn(|| *POOL.lock().unwrap() = Some(pending())));
            });
            check(POOL.lock().unwrap().take().unwrap());
        });
    });
}

/// `run` waits for a strand that waits for the future, and so for its helper.
#[test]
fn a_stream_that_is_still_read_is_waited_for() {
    common::in_child("a_stream_that_is_still_read_is_waited_for", &[], || {
        runtimes(|runtime| {
            let (sender, receiver) = std::sync::mpsc::channel();
            runtime.run(|| {
                drop(fiber::spawn(move || {
                    let (mut ours, mut theirs) = pending();
                    drop(fiber::spawn(move || {
                        fiber::sleep(Duration::from_millis(10));
                        theirs.write_all(b"in time").unwrap();
                    }));
                    let mut text = String::new();
                    let read = block_on(ours.read_to_string(&mut text)).map(|_| text);
                    sender.send(read).unwrap();
                }));
            });
            assert_eq!(receiver.try_recv().unwrap().unwrap(), "in time");
        });
    });
}
