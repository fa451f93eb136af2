//! Strands that cannot start, in scopes that return their values; and panics with a similar
//! message.

use std::{
    io,
    panic::{catch_unwind, panic_any},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use crate::common;
use ramie::{Driver, Runtime, fiber, structured};

use crate::common::{assert_success, child_with, is_child, text};

/// The message of a strand that has no stack.
const SOUNDS_SO: &str = "the engine cannot start: no fuel";

fn panics() -> u8 {
    panic_any(SOUNDS_SO.to_owned())
}

/// A panic of the program is resumed unchanged, whatever its message.
#[test]
fn a_panic_with_the_text_of_a_failed_start_keeps_its_text() {
    common::on_workers(|| {
        let cases: [(&str, fn()); 4] = [
            ("join!", || {
                let _ = ramie::join!(panics(), 1);
            }),
            ("set", || structured::set(|set| set.spawn(panics))),
            ("on_each_worker", || drop(fiber::on_each_worker(|_| panics()))),
            ("try_join!", || {
                let _ = ramie::try_join!(io::Result::Ok(panics()), io::Result::Ok(1));
            }),
        ];
        for (case, call) in cases {
            let payload = catch_unwind(call).unwrap_err();
            assert_eq!(text(&*payload), SOUNDS_SO, "{case}");
        }
    });
}

/// The reason is reported, and not taken for a cancellation.
#[test]
fn a_joined_strand_without_a_stack_is_the_panic_of_its_scope() {
    let test = "a_joined_strand_without_a_stack_is_the_panic_of_its_scope";
    if !is_child() {
        // Room for one arena of stacks, but not for all strands.
        let variables = [("RUST_BACKTRACE", "0")];
        return assert_success(&child_with("ulimit -v 1900000", test, &variables));
    }
    let runtime = Runtime::builder().driver(Driver::Poll).workers(1).stack_size(64 << 20);
    runtime.build().unwrap().run(|| {
        let (started, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        fiber::scope(|scope| {
            for count in 0.. {
                let holder = scope.spawn(|| {
                    started.fetch_add(1, SeqCst);
                    common::wait_until(|| is_over.load(SeqCst));
                });
                common::wait_until(|| started.load(SeqCst) > count || holder.is_finished());
                if started.load(SeqCst) == count {
                    assert!(holder.join().is_err(), "it has a stack");
                    break;
                }
            }
            let payload = catch_unwind(|| {
                structured::try_scope(|scope| {
                    let child = scope.spawn(|| io::Result::Ok(1));
                    let value = child.join()?;
                    Ok(value)
                })
            });
            is_over.store(true, SeqCst);
            let payload = payload.unwrap_err();
            let said = text(&*payload);
            assert!(said.contains("cannot start") && said.contains("ulimit -v"), "{said}");
        });
    });
}
