//! The buffer of a recording: a reader beside the writer, which overwrites what the reader copies.

use loom::thread;

use super::check;
use crate::core::{
    primitive::Arc,
    trace::{EventWords, TraceBuffer},
};

/// Each word has the number of the event.
fn event(number: u64) -> EventWords {
    [number + 1; 2]
}

/// Copies all events, and checks that each is whole and has its number.
fn read(buffer: &TraceBuffer, from: u64) -> u64 {
    let mut events = Vec::new();
    let copied = buffer.copy(from, usize::MAX, &mut events);
    assert_eq!(copied.next - copied.first, events.len() as u64);
    for (number, words) in (copied.first..).zip(events) {
        assert_eq!(words, event(number), "a mixture of two events");
    }
    copied.next
}

/// The race to fear: the writer comes round while the reader copies.
pub(crate) fn an_event_is_copied_whole_or_not_at_all() {
    check(|| {
        let buffer = Arc::new(TraceBuffer::new(2, false));
        buffer.push(event(0));
        let theirs = Arc::clone(&buffer);
        let reader = thread::spawn(move || {
            let next = read(&theirs, 0);
            read(&theirs, next);
        });
        buffer.push(event(1));
        buffer.push(event(2));
        reader.join().unwrap();
        assert_eq!(read(&buffer, 0), 3);
    });
}
