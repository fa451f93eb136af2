//! A program to be inspected: its fibers wait in several ways, and it does as its standard input
//! asks: `more N` starts N fibers that wait, `stall` keeps a worker for a while; the end of the
//! input ends it.

use std::{thread, time::Duration};

use ramie::{
    Runtime, channel, fiber,
    io::{BufRead, BufReader, stdin},
    sync::{Event, Mutex},
};

/// Longer than the limit of a stall.
const STALL: Duration = Duration::from_millis(200);

fn named<'a>(s: &'a fiber::Scope<'a, '_>, name: &str, f: impl FnOnce() + Send + 'a) {
    drop(fiber::Builder::new().name(name.to_owned()).spawn_scoped(s, f).expect("a fiber"));
}

#[inline(never)]
fn waits_for_the_event(event: &Event) {
    event.wait().expect("no scope is cancelled");
}

fn main() {
    let runtime = Runtime::builder().workers(2).inspect(true).build().expect("a runtime");
    runtime.run(|| {
        let (event, lock) = (Event::new(), Mutex::new(()));
        let (sender, receiver) = channel::unbounded::<()>();
        let held = lock.lock().expect("no holder has panicked");
        fiber::scope(|s| {
            named(s, "<img src=x onerror=alert(1)>", || waits_for_the_event(&event));
            // It would clear a terminal.
            named(s, "clears \u{1b}[2J", || waits_for_the_event(&event));
            named(s, "for the lock", || drop(lock.lock()));
            named(s, "for a message", || _ = receiver.recv());
            named(s, "for time", || while event.wait_timeout(STALL) == Ok(false) {});
            println!("ready");
            let mut input = BufReader::new(stdin());
            let mut line = String::new();
            while input.read_line(&mut line).is_ok_and(|len| len > 0) {
                match line.trim().split_once(' ') {
                    Some(("more", count)) => {
                        for _ in 0..count.parse().expect("a number") {
                            s.spawn(|| waits_for_the_event(&event));
                        }
                    }
                    _ => {
                        // Another fiber that the worker could run.
                        s.spawn_local(|| ());
                        thread::sleep(STALL);
                    }
                }
                line.clear();
            }
            event.set();
            drop(held);
            drop(sender);
        });
    });
}
