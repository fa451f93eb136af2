//! A thousand slow queries at once, on one worker.

use std::time::{Duration, Instant};

use ramie::{Runtime, fiber};
use ramie_pool::Pool;

use crate::exchange::{Exchange, Server};

const QUERIES: usize = 1000;
const DELAY: Duration = Duration::from_millis(100);
/// The most that all may take, as a multiple of one.
const LIMIT: f64 = 1.3;
/// The server runs on the same processors, and needs them for a thousand queries meanwhile; in the
/// first attempts also for its caches.
const ATTEMPTS: usize = 10;

pub fn check<M: Server>(manager: M) {
    Runtime::builder().workers(1).build().expect("a runtime").run(|| {
        let pool = Pool::builder()
            .max_size(QUERIES)
            .min_idle(QUERIES)
            .test_after_idle(None)
            .build(manager);
        while pool.stats().idle < QUERIES {
            fiber::sleep(Duration::from_millis(10));
        }
        let ask = |number| {
            let answer = pool.with(|connection| connection.ask(number, DELAY));
            assert_eq!(answer.expect("an answer"), number, "a wrong answer");
        };
        let mut best = f64::MAX;
        for _ in 0..ATTEMPTS {
            let one = time(|| ask(1));
            let all = time(|| {
                fiber::scope(|s| {
                    for number in 0..QUERIES as u64 {
                        s.spawn_local(move || ask(number));
                    }
                });
            });
            let ratio = all.as_secs_f64() / one.as_secs_f64();
            println!(
                "  1 query: {one:.1?}, {QUERIES} queries at once: {all:.1?}, {ratio:.2} times"
            );
            best = best.min(ratio);
            if best <= LIMIT {
                break;
            }
        }
        assert!(best <= LIMIT, "{QUERIES} queries took {best:.2} times as long as one");
        assert_eq!(pool.stats().open, QUERIES);
    });
}

fn time(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}
