//! A value there and back between two threads on two CPUs: between fibers of two workers, and by
//! the bare means of the kernel.

mod fibers;
mod raw;

use std::time::{Duration, Instant};

use crate::{measure::median, process};

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
}

/// A series of round trips.
#[derive(Clone, Copy)]
pub struct RoundTrips {
    times: u32,
    /// How long the sender is busy before each value, so that the receiver has fallen asleep.
    pause: Duration,
}

/// Answers at once: each side is awake when its value comes, or has just fallen asleep.
const HOT: RoundTrips = RoundTrips { times: 20_000, pause: Duration::ZERO };
const COLD: RoundTrips = RoundTrips { times: 1_000, pause: Duration::from_micros(300) };
/// The limit of a hand-over between fibers, as a multiple of the best bare one.
const TARGET: f64 = 1.2;

/// One way to hand a value over; returns the us of each round trip.
type Way = fn(RoundTrips, [usize; 2]) -> Vec<f64>;

const WAYS: [(&str, Way); 4] = [
    ("fibers", fibers::run),
    ("futex", raw::by_futex),
    ("eventfd, ring", raw::by_eventfd),
    ("MSG_RING", raw::by_message),
];

/// Returns whether the target is met, for the round trips with sleep.
pub fn compare(options: &Options) -> Result<bool, String> {
    let &[first, second, ..] = process::cpus()?.as_slice() else {
        return Err("one CPU is not enough for two workers".to_owned());
    };
    let mut figures = WAYS.map(|_| [Vec::new(), Vec::new()]);
    for _ in 0..options.rounds {
        for ((_, way), [hot, cold]) in WAYS.iter().zip(&mut figures) {
            hot.push(middle(&way(HOT, [first, second])));
            cold.push(middle(&way(COLD, [first, second])));
        }
    }
    println!("{:<16}{:>14}{:>22}", "us there + back", "at once", "after 300 us of sleep");
    let figures = figures.map(|[hot, cold]| [median(&hot, |us| *us), median(&cold, |us| *us)]);
    for ((name, _), [hot, cold]) in WAYS.iter().zip(&figures) {
        println!("{name:<16}{hot:>14.1}{cold:>22.1}");
    }
    let best = figures[1..].iter().map(|[_, cold]| *cold).fold(f64::INFINITY, f64::min);
    let ratio = figures[0][1] / best;
    println!("after a sleep, fibers / the best of the others: {ratio:.2} (at most {TARGET})");
    Ok(ratio <= TARGET)
}

fn middle(times: &[f64]) -> f64 {
    median(times, |us| *us)
}

/// Sends values and waits for the answers as planned, by the caller's means.
fn ping(plan: RoundTrips, mut there_and_back: impl FnMut()) -> Vec<f64> {
    let one = |_| {
        let begin = Instant::now();
        while begin.elapsed() < plan.pause {
            std::hint::spin_loop();
        }
        let sent = Instant::now();
        there_and_back();
        sent.elapsed().as_secs_f64() * 1e6
    };
    (0..plan.times).map(one).collect()
}
