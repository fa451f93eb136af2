//! Traces that no recording of a test makes: of a year, and damaged ones.

use super::{
    super::{
        chunk::{BUFFER, Chunk, DONE, EVENTS, HEAD, TIME},
        pack::pack,
    },
    *,
};

fn read(chunks: &[Vec<u8>]) -> Trace {
    let head = Chunk::new(HEAD).u32(VERSION).u32(1).u64(0).text("call").end();
    let done = Chunk::new(DONE).u64(0).u32(0).end();
    Trace::read(&[&head[..], &chunks.concat(), &done].concat()).unwrap()
}

fn time(ticks: u64, ns: u64) -> Vec<u8> {
    Chunk::new(TIME).u64(ticks).u64(ns).end()
}

fn buffer(number: u32) -> Vec<u8> {
    Chunk::new(BUFFER).u32(number).u32(0).u32(1).u64(0).text("").end()
}

fn events(number: u32, first: u64, events: &[EventWords]) -> Vec<u8> {
    Chunk::new(EVENTS).u32(number).u64(first).with(|bytes| pack(events, bytes, |_| ())).end()
}

fn word(ticks: u64, kind: EventKind) -> u64 {
    ticks << 8 | kind as u64
}

#[test]
fn the_times_of_a_recording_of_a_year_are_right() {
    // Two ticks take a nanosecond.
    let (begin, year) = (1_000, 3 << TICK_BITS);
    let at = |before_the_end: u64| word(begin + year - before_the_end, EventKind::Sleeps);
    let words = [2_000_000, 600, 0].map(|before| [at(before), 0, 0, 0]);
    let clocks = [time(begin, 50), time(begin + year, 50 + year / 2)];
    let trace = read(&[clocks[0].clone(), buffer(0), events(0, 0, &words), clocks[1].clone()]);
    let end = 50 + year / 2;
    let expected = [end - 1_000_000, end - 300, end].map(Duration::from_nanos);
    let times: Vec<_> = trace.events.iter().map(|event| event.time).collect();
    assert_eq!(times, expected);
}

/// The parts of two messages, which come in turns, are cut within characters.
#[test]
fn messages_of_panics_are_put_together_by_strand() {
    let texts = ["ß".repeat(20), format!("x{}", "é".repeat(15))];
    let part = |message: usize, from: usize| {
        let bytes = &texts[message].as_bytes()[from..];
        let mut words = [0; 16];
        words[..bytes.len().min(16)].copy_from_slice(&bytes[..bytes.len().min(16)]);
        let [second, third] =
            [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| words[at + byte])));
        [word(5, EventKind::PanicText), message as u64 + 1, second, third]
    };
    let begins = |message: usize| [word(5, EventKind::Panics), message as u64 + 1, 0, 0];
    let trace = read(&[
        time(0, 0),
        buffer(0),
        buffer(1),
        events(0, 0, &[begins(0), part(0, 0)]),
        events(1, 0, &[begins(1), part(1, 0), part(1, 16)]),
        events(0, 2, &[part(0, 16), part(0, 32)]),
        time(10, 10),
    ]);
    let messages: Vec<_> = trace.events.iter().map(|event| &event.kind).collect();
    let expected = texts.map(|message| TraceEventKind::Panics { message });
    assert_eq!(messages, [&expected[0], &expected[1]]);
}

#[test]
fn absurd_numbers_of_events_do_no_harm() {
    let event = [[word(1, EventKind::Sleeps), 0, 0, 0]];
    let at = |first: u64| events(0, first, &event);
    let trace = read(&[buffer(0), at(u64::MAX), at(0), at(u64::MAX)]);
    assert_eq!(trace.workers[0].overwritten, u64::MAX);
}
