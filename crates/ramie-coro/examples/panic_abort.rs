//! Guarantees for a program with `panic = "abort"`: dropping a suspended coroutine does not unwind
//! it, because such a program cannot unwind. The stack is leaked and counted, the destructors on it
//! do not run, and the program continues.
//!
//! ```sh
//! cargo run --profile abort --package ramie-coro --example panic_abort
//! ```

use std::cell::Cell;

use ramie_coro::{Coroutine, stats};

thread_local! {
    static DROPPED: Cell<bool> = const { Cell::new(false) };
}

struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        DROPPED.set(true);
    }
}

fn main() {
    let coroutine = Coroutine::new(|yielder: &ramie_coro::Yielder<(), ()>, ()| {
        let _loud = Loud;
        yielder.suspend(());
    });
    coroutine.resume(());
    drop(coroutine);
    let (leaked, dropped) = (stats().leaked, DROPPED.get());
    println!("stacks leaked: {leaked}; destructors run: {dropped}");
    let expected = if cfg!(panic = "abort") { (1, false) } else { (0, true) };
    assert_eq!((leaked, dropped), expected, "of a suspended coroutine that is dropped");
}
