//! The buffer of a worker: replaced events, and readers beside the writer.

use std::thread;

use super::{EventWords, TraceBuffer, buffer::CopiedEvents};

fn event(number: u64) -> EventWords {
    [number, number.wrapping_mul(3), !number, number << 8]
}

#[test]
fn the_newest_events_replace_the_oldest() {
    let buffer = TraceBuffer::new(8, false);
    let mut events = Vec::new();
    assert_eq!(buffer.copy(0, 100, &mut events), CopiedEvents { first: 0, next: 0 });
    (0..5).for_each(|number| buffer.push(event(number)));
    assert_eq!(buffer.copy(2, 2, &mut events), CopiedEvents { first: 2, next: 4 });
    assert_eq!(events, [event(2), event(3)]);
    (5..21).for_each(|number| buffer.push(event(number)));
    events.clear();
    // The slot that the writer would touch next counts as touched.
    assert_eq!(buffer.copy(4, 100, &mut events), CopiedEvents { first: 14, next: 21 });
    assert_eq!(events, (14..21).map(event).collect::<Vec<_>>());
    events.clear();
    assert_eq!(buffer.copy(30, 100, &mut events), CopiedEvents { first: 21, next: 21 });
    assert_eq!((buffer.written(), buffer.capacity()), (21, 8));
}

/// A small buffer, so that the writer overtakes the readers again and again.
#[test]
fn readers_beside_a_writer_get_whole_events_only() {
    const EVENTS: u64 = 200_000;
    let buffer = TraceBuffer::new(64, false);
    let read = || {
        let (mut from, mut seen) = (0, 0);
        let mut events = Vec::new();
        while from < EVENTS {
            let copied = buffer.copy(from, 16, &mut events);
            assert!(copied.first >= from && copied.next >= copied.first);
            for (number, words) in (copied.first..).zip(events.drain(..)) {
                assert_eq!(words, event(number));
                seen += 1;
            }
            from = copied.next;
        }
        seen
    };
    thread::scope(|threads| {
        let readers = [threads.spawn(read), threads.spawn(read)];
        (0..EVENTS).for_each(|number| buffer.push(event(number)));
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}
