//! Measures the cost of an effect: `cargo run --release -p ramie-coro --example effect_speed`.

use std::{hint::black_box, time::Instant};

use ramie_coro::{
    Coroutine, StackPool, StackSize,
    bare::BareCoroutine,
    delimited::reset,
    effect::{Effect, Step, handle, perform, start},
};

struct Ask(u64);
impl Effect for Ask {
    type Output = u64;
}

struct Other;
impl Effect for Other {
    type Output = ();
}

const TIMES: u64 = 5_000_000;

fn report(what: &str, times: u64, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    println!("{what:<44} {:7.1} ns", start.elapsed().as_nanos() as f64 / times as f64);
}

fn ask_often() -> u64 {
    (0..TIMES).fold(0, |sum, at| sum + perform(Ask(at)))
}

fn main() {
    let stack = StackPool::new(StackSize::default()).take().expect("a stack");
    let mut bare = BareCoroutine::<(), (), ()>::with_stack(stack, |yielder, ()| {
        loop {
            // SAFETY: on the coroutine's own stack.
            unsafe { yielder.suspend(()) };
        }
    });
    report("bare switch, there and back", TIMES, || (0..TIMES).for_each(|_| _ = bare.resume(())));
    let coroutine = Coroutine::<u64, u64, ()>::new(|yielder, mut at| {
        loop {
            at = yielder.suspend(at);
        }
    });
    report("Coroutine::resume and suspend", TIMES, || {
        (0..TIMES).for_each(|at| _ = black_box(coroutine.resume(at)));
    });
    report("perform and resume", TIMES, || {
        black_box(handle(ask_often, |Ask(at), resume| resume.with(at)));
    });
    report("perform and resume, four handlers up", TIMES, || {
        let one = |body: &dyn Fn() -> u64| handle(body, |_: Other, resume| resume.with(()));
        let inner = || one(&|| one(&|| one(&|| one(&ask_often))));
        black_box(handle(inner, |Ask(at), resume| resume.with(at)));
    });
    report("perform and resume, kept", TIMES, || {
        let mut step = start(ask_often);
        while let Step::Performed(Ask(at), continuation) = step {
            step = continuation.resume(at);
        }
    });
    let times = TIMES / 10;
    report("handle around nothing", times, || {
        (0..times).for_each(|at| _ = black_box(handle(|| at, |_: Other, resume| resume.with(()))));
    });
    report("reset and shift", times, || {
        (0..times).for_each(|at| _ = black_box(reset(|p| 1 + p.shift::<u64>(|k| k.resume(at)))));
    });
    report("handle and drop: the body unwinds", times / 10, || {
        (0..times / 10).for_each(|_| {
            handle(|| perform(Other), |_: Other, _| ramie_coro::effect::Next::Return(()));
        });
    });
}
