//! The CPU's prediction of return addresses, after a system call.
//!
//! A CPU keeps the return addresses of calls on an internal stack, and predicts returns by it. A
//! kernel that protects an AMD CPU by "Safe RET" leaves its own addresses there. If a program then
//! returns from a function that it had called before the system call, the next system calls are
//! slower: some fifty of the kernel's functions begin about 15 ns late. This was measured on Zen 4
//! with Linux 6.18, also with a loop in C: a receive and a send over TCP took 0.6 us more. A loop
//! that does not return from a function between two system calls is not affected; fibers, tasks and
//! libc's wrappers are.
//!
//! So on such a kernel, frequent system calls are followed by a few calls that never return, in the
//! way in which kernels fill that stack. Two were enough for the loop in C.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::read_small;

static IS_SPOILT: AtomicBool = AtomicBool::new(false);

/// Finds out, at the first call, whether this kernel spoils predictions.
pub(crate) fn look() {
    static LOOKED: Once = Once::new();
    LOOKED.call_once(|| {
        let report = read_small("/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow");
        // If there is no report, nothing is done, because this is only a matter of speed.
        IS_SPOILT.store(report.is_some_and(|text| text.contains("Safe RET")), Ordering::Relaxed);
    });
}

/// Replaces the predictions of the next returns, if the system call just made may have spoilt them.
/// The new predictions are wrong, too, but they name addresses of this program.
#[inline(always)]
pub(crate) fn renew() {
    if IS_SPOILT.load(Ordering::Relaxed) {
        call_sixteen_times();
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn call_sixteen_times() {
    // SAFETY: it writes only 128 bytes below the stack pointer, which the compiler permits (no
    // `nostack`), and restores the pointer. Behind each call, at the predicted return address, is a
    // trap, so nothing runs there even speculatively. A shadow stack would miss the returns; Linux
    // uses one only for programs all of whose parts are marked for it, and Rust's are not.
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
