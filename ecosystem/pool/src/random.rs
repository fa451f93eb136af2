//! Queries that are cancelled at random moments.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ramie::{Runtime, cancel, fiber};
use ramie_pool::Pool;

use crate::exchange::{Exchange, Server};

const FIBERS: u64 = 64;
const CONNECTIONS: usize = 16;

/// A small generator (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Runs `query(number, delay, limit)` in many fibers until it has returned false `cancelled` times.
/// Returns the number of queries.
fn at_random(cancelled: u64, query: impl Fn(u64, Duration, Duration) -> bool + Sync) -> u64 {
    let (asked, remaining) = (AtomicU64::new(0), AtomicU64::new(cancelled));
    fiber::scope(|s| {
        for fiber in 1..=FIBERS {
            let (query, asked, remaining) = (&query, &asked, &remaining);
            s.spawn(move || {
                let mut random = fiber.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                while remaining.load(Relaxed) > 0 {
                    // Most are short, so that many are cancelled while the answer is on its way.
                    let delay = match next(&mut random) % 8 {
                        0 => Duration::from_millis(1),
                        _ => Duration::ZERO,
                    };
                    let limit = Duration::from_micros(next(&mut random) % 1000);
                    if !query(asked.fetch_add(1, Relaxed), delay, limit) {
                        let _ =
                            remaining.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                    }
                }
            });
        }
    });
    asked.into_inner()
}

/// Runs queries until `cancelled` of them were cancelled, and checks each answer.
pub fn check<M: Server>(manager: M, cancelled: u64) {
    Runtime::builder().workers(2).build().expect("a runtime").run(|| {
        let pool = Pool::builder().max_size(CONNECTIONS).build(manager.clone());
        let start = Instant::now();
        let asked = at_random(cancelled, |number, delay, limit| {
            // The connection first, so that the limit cuts off the query and not the wait for it.
            let mut connection = pool.get().expect("a connection");
            let answer = cancel::try_with_timeout(limit, || connection.ask(number, delay));
            if let Ok(answer) = answer {
                assert_eq!(answer, number, "a wrong answer");
            }
            answer.is_ok()
        });
        let stats = pool.stats();
        println!(
            "  {asked} queries, {cancelled} of them cancelled, in {:.1?}: {} connections opened",
            start.elapsed(),
            stats.connects
        );
        assert!(stats.discarded_cancelled >= cancelled, "{stats:?}");
        assert_eq!((stats.open, stats.waiting), (stats.idle, 0), "{stats:?}");
        assert!(stats.open <= CONNECTIONS);
        drop(pool);
        // The server notices the ends of connections a little later.
        let mut own = manager.connect().expect("a connection");
        let deadline = Instant::now() + Duration::from_secs(20);
        while own.connections().expect("an answer") > 1 {
            assert!(Instant::now() < deadline, "connections are leaked");
            fiber::sleep(Duration::from_millis(20));
        }
        println!("  no wrong answer, no connection left");
    });
}

/// The same with connections that are always used again: it must find a wrong answer.
pub fn canary<M: Server>(manager: M) {
    Runtime::builder().workers(1).build().expect("a runtime").run(|| {
        let kept = Mutex::new(Vec::new());
        at_random(10_000, |number, delay, limit| {
            let taken = kept.lock().expect("no panic").pop();
            let mut connection = taken.unwrap_or_else(|| manager.connect().expect("a connection"));
            let answer = cancel::try_with_timeout(limit, || connection.ask(number, delay));
            if let Ok(answer) = answer
                && answer != number
            {
                println!("a wrong answer: {answer} for {number}");
                std::process::exit(1);
            }
            kept.lock().expect("no panic").push(connection);
            answer.is_ok()
        });
    });
}
