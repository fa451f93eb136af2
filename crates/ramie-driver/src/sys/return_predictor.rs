//! Where the CPU thinks that functions return to, after a system call.
//!
//! A CPU notes on a stack of its own where calls came from, and predicts returns by that. A kernel
//! that guards an AMD CPU by "Safe RET" leaves its own addresses there. If a program then returns
//! from a function that it had called before the system call, the next system calls are slower:
//! some fifty of the kernel's functions begin late, by about 15 ns each. Seen on Zen 4 with Linux
//! 6.18, with a loop in C, too: a receive and a send over TCP took 0.6 us more. A loop that returns
//! from nothing between two system calls is spared; fibers, tasks and libc's wrappers are not.
//!
//! So where the kernel does that, the system calls that are made often are followed by a few calls
//! from which nobody returns, as kernels fill that stack. Two were enough for the loop in C.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::read_small;

static IS_SPOILT: AtomicBool = AtomicBool::new(false);

/// Learns whether this kernel spoils predictions; the first call alone looks.
pub(crate) fn look() {
    static LOOKED: Once = Once::new();
    LOOKED.call_once(|| {
        let told = read_small("/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow");
        // If the kernel reports nothing, nothing is done, because it is a matter of speed alone.
        IS_SPOILT.store(told.is_some_and(|told| told.contains("Safe RET")), Ordering::Relaxed);
    });
}

/// Puts the predictions of the next returns right, if the system call just made may have spoilt
/// them: they miss, but they name this program.
#[inline(always)]
pub(crate) fn renew() {
    if IS_SPOILT.load(Ordering::Relaxed) {
        call_sixteen_times();
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn call_sixteen_times() {
    // SAFETY: it writes 128 bytes below the stack pointer only, which the compiler leaves to it
    // (no `nostack`), and puts the pointer back. Behind each call, where a return will be predicted
    // to lead, is a trap: nothing is done there even speculatively. A shadow stack would miss the
    // returns; Linux gives one to programs only that are marked so in all parts, and none of
    // Rust's is.
    unsafe {
        std::arch::asm!(
            ".rept 16",
            "call 2f",
            "int3",
            "2:",
            ".endr",
            "lea rsp, [rsp + 128]",
            options(preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn call_sixteen_times() {}

#[cfg(test)]
mod tests {
    use super::call_sixteen_times;

    #[inline(never)]
    fn sum_to(count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        let sum = count + sum_to(count - 1);
        call_sixteen_times();
        std::hint::black_box(sum)
    }

    #[test]
    fn all_still_return_to_their_callers() {
        assert_eq!(sum_to(100), 5050);
    }
}
