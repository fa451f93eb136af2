//! A program for `.ci/debugger`: fibers that wait in functions with known names.

use std::{hint::black_box, process, thread, time::Duration};

use ramie::{Runtime, fiber, sync::Event};

/// In the frames of this fiber lies a number that the lane prints.
#[inline(never)]
fn waits_for_the_event(event: &Event, depth: u32) -> u32 {
    let known_to_the_lane = black_box(depth + 4711);
    if depth == 0 {
        event.wait().unwrap();
        return known_to_the_lane;
    }
    black_box(waits_for_the_event(event, depth - 1)) + 1
}

fn main() {
    // The lane kills this process; if it does not, nothing is left behind.
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(300));
        process::exit(1);
    });
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            for depth in [0, 3] {
                let builder = fiber::Builder::new().name(format!("depth {depth}"));
                let event = &event;
                builder.spawn_scoped(s, move || waits_for_the_event(event, depth)).unwrap();
            }
            fiber::yield_now();
            println!("ready");
            // Blocks the only worker, so this fiber runs, and the last one has not started.
            s.spawn(|| event.wait().unwrap());
            thread::sleep(Duration::from_secs(300));
        });
    });
}
