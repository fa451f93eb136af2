//! Exchanges that are cancelled at random moments.

use std::{cell::Cell, sync::atomic::Ordering::SeqCst, time::Duration};

use ramie::{cancel, fiber};

use crate::protocol::pool;

const FIBERS: u64 = 50;
const EXCHANGES: u64 = 60;

/// A small generator (xorshift), so that the moments differ and no crate is needed.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn exchange_and_cancel(workers: usize) {
    ramie::Runtime::builder().workers(workers).build().unwrap().run(|| {
        let (pool, server) = pool(|pool| pool.max_size(8));
        let cancelled = fiber::scope(|s| {
            let handles: Vec<_> = (1..=FIBERS)
                .map(|fiber| {
                    let pool = &pool;
                    s.spawn(move || {
                        let cancelled = Cell::new(0);
                        let mut random = fiber.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        for exchange in 0..EXCHANGES {
                            let request = fiber << 32 | exchange;
                            let delay = Duration::from_micros(next(&mut random) % 300);
                            // On a busy machine all others may be too short.
                            let limit = match next(&mut random) % 800 {
                                micros @ 0..600 => Duration::from_micros(micros),
                                _ => Duration::from_secs(60),
                            };
                            let answer = cancel::try_with_timeout(limit, || {
                                pool.get()?.exchange(request, delay)
                            });
                            match answer {
                                Ok(answer) => assert_eq!(answer, request, "a wrong answer"),
                                Err(_) => cancelled.set(cancelled.get() + 1),
                            }
                        }
                        cancelled.get()
                    })
                })
                .collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).sum::<u64>()
        });
        assert!(cancelled > 0 && cancelled < FIBERS * EXCHANGES, "{cancelled} were cancelled");
        let stats = pool.stats();
        assert_eq!((stats.open, stats.waiting), (stats.idle, 0), "{stats:?}");
        assert_eq!(stats.connects, stats.closed + stats.open as u64, "{stats:?}");
        let discarded = stats.discarded_cancelled + stats.discarded_broken;
        assert_eq!(stats.closed, discarded + stats.discarded_invalid, "{stats:?}");
        assert!(server.most_open.load(SeqCst) <= 8);
        assert_eq!(server.open.load(SeqCst), stats.open);
        drop(pool);
        assert_eq!(server.open.load(SeqCst), 0);
    });
}

#[test]
fn exchanges_cancelled_at_random_never_cause_a_wrong_answer() {
    exchange_and_cancel(1);
}

#[test]
fn nor_do_they_on_two_workers() {
    exchange_and_cancel(2);
}
