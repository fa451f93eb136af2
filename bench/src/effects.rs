//! A computation that asks its caller for a value, again and again.
//!
//! The limit is a bare coroutine that suspends for the value. An effect costs more, because its
//! handler is found by its type, at any call depth, and receives the rest of the computation.

use std::{hint::black_box, time::Instant};

use corosensei::{Coroutine, CoroutineResult};
use ramie::{
    effect::{Effect, handle, perform},
    fiber,
};

use crate::{peers::Peer, workload::Sample};

/// Asks for the successor of this number.
struct Next(u64);

impl Effect for Next {
    type Output = u64;
}

pub fn run(peer: Peer, count: u64) -> Option<Sample> {
    match peer {
        Peer::Ramie => {
            let runtime = ramie::Runtime::builder().workers(1).build().expect("a runtime");
            Some(runtime.run(|| fiber::spawn(move || on_ramie(count)).join().expect("no panic")))
        }
        Peer::Corosensei => Some(on_corosensei(count)),
        _ => None,
    }
}

fn on_ramie(count: u64) -> Sample {
    let start = Instant::now();
    let last = handle(
        || (0..count).fold(0, |number, _| perform(Next(number))),
        |Next(number): Next, resume| resume.with(black_box(number) + 1),
    );
    let time = start.elapsed();
    assert_eq!(last, count);
    Sample::timed(time)
}

fn on_corosensei(count: u64) -> Sample {
    let start = Instant::now();
    let mut coroutine = Coroutine::<u64, u64, u64>::new(move |yielder, _| {
        (0..count).fold(0, |number, _| yielder.suspend(number))
    });
    let mut answer = 0;
    let last = loop {
        match coroutine.resume(answer) {
            CoroutineResult::Yield(number) => answer = black_box(number) + 1,
            CoroutineResult::Return(last) => break last,
        }
    };
    let time = start.elapsed();
    assert_eq!(last, count);
    Sample::timed(time)
}
