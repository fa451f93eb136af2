//! The modes of floating-point arithmetic belong to the thread: a switch does not change them.
//!
//! Rust code may not change the modes (see `_mm_setcsr`), and a C function that changes them has to
//! restore them before it returns. If code breaks this rule and suspends, its resumer sees the
//! changed modes, as its caller would. These tests pin that down.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;

use ramie_coro::{Coroutine, Yielder};

/// Flush to zero, and rounding towards zero.
const UNUSUAL_SSE: u32 = 0x1f80 | 1 << 15 | 3 << 13;
const USUAL_SSE: u32 = 0x1f80;
/// Rounding towards zero, 64 bits.
const UNUSUAL_X87: u16 = 0x037f | 3 << 10;
const USUAL_X87: u16 = 0x037f;

/// The control bits, without the status flags.
fn modes() -> (u32, u16) {
    let (mut sse, mut x87) = (0_u32, 0_u16);
    // SAFETY: stores the two registers.
    unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut sse, in(reg) &raw mut x87) };
    (sse & !0x3f, x87)
}

/// No floating-point operation may run until the modes are restored.
fn set_modes(sse: u32, x87: u16) {
    // SAFETY: valid control words, which mask all exceptions.
    unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const sse, in(reg) &raw const x87) };
}

#[test]
fn a_switch_leaves_the_modes_as_they_are() {
    let coroutine: Coroutine<(), (u32, u16), ()> =
        Coroutine::new(|yielder: &Yielder<(), (u32, u16)>, ()| {
            yielder.suspend(modes());
            yielder.suspend(modes());
            set_modes(UNUSUAL_SSE, UNUSUAL_X87);
            yielder.suspend(modes());
            yielder.suspend(modes());
        });
    let usual = coroutine.resume(()).yielded();
    // The coroutine runs with the modes of its resumer.
    set_modes(UNUSUAL_SSE, UNUSUAL_X87);
    let unusual = coroutine.resume(()).yielded();
    set_modes(USUAL_SSE, USUAL_X87);
    // The resumer runs with the modes of the coroutine.
    let set_there = coroutine.resume(()).yielded();
    let seen_here = modes();
    set_modes(USUAL_SSE, USUAL_X87);
    let put_back = coroutine.resume(()).yielded();
    assert_eq!(usual, Some((USUAL_SSE, USUAL_X87)));
    assert_eq!(unusual, Some((UNUSUAL_SSE, UNUSUAL_X87)));
    assert_eq!((set_there, seen_here), (unusual, (UNUSUAL_SSE, UNUSUAL_X87)));
    assert_eq!(put_back, usual);
}

/// Code that starts on a new stack runs with the modes that the ABI guarantees.
#[test]
fn a_coroutine_begins_with_the_usual_modes() {
    let coroutine: Coroutine<(), (), (u32, u16)> = Coroutine::new(|_, ()| modes());
    assert_eq!(coroutine.resume(()).returned(), Some((USUAL_SSE, USUAL_X87)));
}
