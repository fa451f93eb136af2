//! Traces for other processes: the request, its clients, its end.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use ramie::{
    fiber,
    inspect::{Trace, TraceEventKind},
};

use crate::{
    common::{is_child, wait_until},
    has_thread,
    recorded::{events_of, pass_tokens, strand},
    served::{SOON, alone, ask, inspected, own_socket},
    spawned_in,
};

pub(crate) const THREAD: &str = "ramie-trace";

/// A client that has sent its request, and has read the answer up to `until`.
pub(crate) fn begin(request: &str, until: &[u8]) -> (UnixStream, Vec<u8>) {
    let (path, request) = (own_socket(), request.to_owned());
    ramie::blocking(move || {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut read = Vec::new();
        while !read.windows(until.len()).any(|part| part == until) {
            let mut part = [0; 1];
            assert_eq!(stream.read(&mut part).unwrap(), 1, "{}", String::from_utf8_lossy(&read));
            read.push(part[0]);
        }
        (stream, read)
    })
}

/// Runs `f` while two fibers wake each other as fast as they can.
fn while_busy<T>(f: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    fiber::scope(|s| {
        pass_tokens(s, || !is_over.load(Ordering::SeqCst));
        let value = f();
        is_over.store(true, Ordering::SeqCst);
        value
    })
}

/// The strands are in the trace before its events, so their workers record by then.
#[test]
fn a_trace_has_all_events_of_its_time() {
    if !is_child() {
        alone("a_trace_has_all_events_of_its_time", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        fiber::scope(|s| {
            let (wake, woken) = ramie::channel::bounded::<()>(1);
            spawned_in(s, "early", move || woken.recv().unwrap());
            fiber::yield_now();
            let (mut stream, mut bytes) = begin("trace 1\n", b"STRD");
            spawned_in(s, "late", || fiber::sleep(Duration::from_millis(1))).join().unwrap();
            wake.send(()).unwrap();
            // Other requests are answered meanwhile, but a second trace has to wait.
            assert!(ask(b"dump text\n").starts_with("ok "));
            let second = ask(b"trace 1\n");
            assert!(second.starts_with("error another trace of this process"), "{second}");
            let bytes = ramie::blocking(move || {
                stream.read_to_end(&mut bytes).unwrap();
                bytes
            });
            let trace = Trace::read(bytes.strip_prefix(b"ok trace\n").unwrap()).unwrap();
            assert!(trace.is_complete && trace.why == "request", "{trace:?}");
            let [start, end] = trace.span;
            assert!(end - start >= Duration::from_secs(1), "{start:?} to {end:?}");
            // It was spawned, and began to wait, before the trace.
            let early = strand(&trace, "early");
            let continues = events_of(&trace, early.id)
                .into_iter()
                .find(|event| matches!(event.kind, TraceEventKind::Continues { .. }))
                .expect("it was woken");
            let TraceEventKind::Continues { wait, .. } = &continues.kind else { unreachable!() };
            assert_eq!(wait.purpose.as_deref(), Some("a channel's value"));
            let late = events_of(&trace, strand(&trace, "late").id);
            assert!(matches!(late[0].kind, TraceEventKind::Spawned { .. }), "{late:?}");
            // The trace was taken in many steps, and each event is in one of them.
            let starts = late.iter().filter(|event| event.kind == TraceEventKind::Started);
            assert_eq!(starts.count(), 1, "{late:?}");
            assert!(matches!(late[late.len() - 1].kind, TraceEventKind::Ended { .. }), "{late:?}");
        });
        // The thread that sent the first trace has ended, or does at once.
        wait_until(|| !has_thread(THREAD));
        let (_, read) = begin("trace 1\n", b"DONE");
        assert!(read.starts_with(b"ok trace\n"));
    });
}

#[test]
fn a_client_that_stops_to_read_a_trace_is_disconnected() {
    if !is_child() {
        alone("a_client_that_stops_to_read_a_trace_is_disconnected", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        let (mut stalled, _) = begin("trace 600\n", b"STRD");
        while_busy(|| wait_until(|| !has_thread(THREAD)));
        let read = ramie::blocking(|| stalled.read_to_end(&mut Vec::new()).unwrap());
        assert!(read < 10_000_000, "{read}: it was cut off");
        // A client that goes away ends its trace, too.
        drop(begin("trace 600\n", b"STRD"));
        while_busy(|| wait_until(|| !has_thread(THREAD)));
        assert!(begin("trace 1\n", b"DONE").1.starts_with(b"ok trace\n"));
    });
}

#[test]
fn a_trace_does_not_delay_the_end() {
    if !is_child() {
        alone("a_trace_does_not_delay_the_end", &[]);
        return;
    }
    let (mut stream, mut bytes, since) = inspected().build().unwrap().run(|| {
        let (stream, bytes) = begin("trace 600\n", b"STRD");
        (stream, bytes, Instant::now())
    });
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    // It was joined, and may still be in the list of the kernel for a moment.
    wait_until(|| !has_thread(THREAD));
    stream.read_to_end(&mut bytes).unwrap();
    // It is cut off, and can be read nevertheless.
    let trace = Trace::read(bytes.strip_prefix(b"ok trace\n").unwrap()).unwrap();
    assert!(!trace.is_complete);
}
