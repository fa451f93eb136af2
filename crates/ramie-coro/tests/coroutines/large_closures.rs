//! Closures of any size become bodies: a closure too large for the base of a stack is boxed.

use std::{cell::Cell, rc::Rc};

use ramie_coro::{
    Coroutine, Generator, Resumed, StackPool, StackSize,
    bare::BareCoroutine,
    delimited::{reset, reset_kept},
    effect::{Effect, handle, perform},
};

struct Ask;

impl Effect for Ask {
    type Output = u64;
}

/// Counts its drops, so the test can check that a body is dropped once.
struct Large<const N: usize> {
    bytes: [u8; N],
    drops: Rc<Cell<u32>>,
}

impl<const N: usize> Large<N> {
    fn new(drops: &Rc<Cell<u32>>) -> Self {
        Large { bytes: [1; N], drops: Rc::clone(drops) }
    }

    fn sum(&self) -> u64 {
        self.bytes.iter().map(|byte| u64::from(*byte)).sum()
    }
}

impl<const N: usize> Drop for Large<N> {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
    }
}

/// The function of a `shift` lies in the frame of its caller, which is in this test on a stack of
/// 256 KiB that also holds a body of 100 KiB.
const SHIFTED: usize = 4096;

fn bodies_of<const N: usize>() {
    let drops = Rc::new(Cell::new(0));
    let sum = N as u64;

    let large = Large::<N>::new(&drops);
    let mut coroutine = Coroutine::new(move |yielder, add: u64| {
        yielder.suspend(add);
        large.sum()
    });
    assert_eq!(coroutine.resume(7), Resumed::Yielded(7));
    let large = Large::<N>::new(&drops);
    // Unwinds the first.
    coroutine.reset(move |_, add| add + large.sum());
    assert_eq!(drops.get(), 1);
    assert_eq!(coroutine.resume(1), Resumed::Returned(sum + 1));
    let large = Large::<N>::new(&drops);
    coroutine.reset(move |_, _| large.sum());
    // Never started.
    drop(coroutine);
    assert_eq!(drops.get(), 3);

    let large = Large::<N>::new(&drops);
    let mut generator = Generator::new(move |yielder| yielder.suspend(large.sum()));
    assert_eq!((generator.next(), generator.next()), (Some(sum), None));

    let large = Large::<N>::new(&drops);
    assert_eq!(reset(move |prompt| large.sum() + prompt.shift(|rest| rest.resume(1))), sum + 1);
    let large = Large::<N>::new(&drops);
    let result = reset_kept(move |prompt| {
        let inside = Large::<SHIFTED>::new(&large.drops);
        large.sum() + prompt.shift(move |rest| 2 * rest.resume(inside.sum()))
    });
    assert_eq!(result, 2 * (sum + SHIFTED as u64));

    let large = Large::<N>::new(&drops);
    let result = handle(move || large.sum() + perform(Ask), |Ask, resume| resume.with(1));
    assert_eq!(result, sum + 1);

    let large = Large::<N>::new(&drops);
    let stack = StackPool::new(StackSize::default()).take().unwrap();
    let mut bare = BareCoroutine::<(), (), u64>::with_stack(stack, move |_, ()| large.sum());
    assert_eq!(bare.resume(()), Resumed::Returned(sum));
    drop(bare);
    assert_eq!(drops.get(), 9);
}

#[test]
fn of_a_hundred_bytes() {
    bodies_of::<100>();
}

#[test]
fn of_about_1_kib() {
    // The largest that fit on the stack and the smallest that do not, with their wrappers.
    bodies_of::<1000>();
    bodies_of::<1008>();
    bodies_of::<1016>();
    bodies_of::<1024>();
    bodies_of::<1032>();
}

#[test]
fn of_4_kib() {
    bodies_of::<4096>();
}

/// Less than half of the default stack.
#[test]
fn of_100_kib() {
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(bodies_of::<{ 100 << 10 }>)
        .unwrap()
        .join()
        .unwrap();
}
