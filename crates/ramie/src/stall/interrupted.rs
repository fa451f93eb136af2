//! Copies of the frames of a fiber that runs: of a thread that computes, by a signal.
//!
//! The kernel tells the registers of a thread only while the thread is blocked
//! ([`thread_state`](super::thread_state)). A thread that computes is interrupted by a signal,
//! whose handler publishes the registers and holds the thread until the watchdog has copied the
//! frames.
//!
//! [`STATE`] is the number of the question, and one of these:
//!
//! | | changed by |
//! |---|---|
//! | `IDLE` | the watchdog: `ASKED` with the next number, then it sends the signal |
//! | `ASKED` | the handler: `CLAIMED`; the watchdog, after [`ANSWER_TIME`]: `IDLE` |
//! | `CLAIMED` | the handler: it publishes the registers, then `HELD` |
//! | `HELD` | the watchdog, when it has copied; the handler, after [`HOLD_TIME`]: both `IDLE` |
//!
//! *The race to fear* is a thread that continues while its frames are copied. The handler gives up
//! by a compare-and-swap from `HELD`, and so does the watchdog when it has copied: only one of them
//! succeeds, and the watchdog uses the copy only if it was the one. A handler that is late finds
//! another number, and stores nothing.
//!
//! Nothing is allocated while a thread is held, because it may hold a lock of the allocator.
//!
//! # The signal
//! It is SIGURG, which programs hardly use and which is ignored by default, so a signal too many
//! does no harm. A program that has a handler for SIGURG keeps it, and has no backtraces of fibers
//! that compute. A signal may interrupt a system call. So only a thread that computes gets one: it
//! has used CPU time for the whole limit of a stall, and is not in a call when the watchdog looks.
//! It may begin a call just then; that one continues by `SA_RESTART`, or fails with `EINTR` in the
//! few cases in which Linux does not restart (`poll`, `nanosleep`).
#![allow(unsafe_code)]

use std::{
    mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie_coro::saved::SavedRegisters;
use ramie_driver::sys::{futex_wait_for, futex_wake, monotonic_ns, thread_id};

use crate::core::worker::{StackCopy, StackRoom};

/// How long the handler may take to begin.
const ANSWER_TIME: Duration = Duration::from_millis(20);
/// How long a handler that has begun may take to publish the registers, which takes it some
/// nanoseconds if it has a CPU. Longer, and no thread is asked any more.
const CLAIM_TIME: Duration = Duration::from_secs(1);
/// How long the handler holds its thread.
const HOLD_TIME: Duration = Duration::from_millis(5);

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const CLAIMED: u32 = 2;
const HELD: u32 = 3;
/// The number of the question begins above these bits.
const NEXT: u32 = 4;

// std's atomics rather than those of the models, because the handler shares them and no model
// covers it.
static STATE: AtomicU32 = AtomicU32::new(IDLE);
/// The thread that is asked.
static THREAD: AtomicU32 = AtomicU32::new(0);
/// The instruction, stack and frame pointers of the thread that is held.
static REGISTERS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
/// A handler has claimed a question and not answered it.
static IS_STUCK: AtomicBool = AtomicBool::new(false);
/// One watchdog asks at a time.
static ASKER: Mutex<()> = Mutex::new(());

/// Copies the frames of a fiber that computes on that thread, while the handler holds it. The stack
/// of the fiber ends at `own_stack`. `None` if the thread is not on the stack of a fiber, if it
/// does not answer in time, or if the program uses the signal itself.
pub(super) fn frames_of(thread: i32, own_stack: usize) -> Option<StackCopy> {
    let _one = ASKER.lock().unwrap_or_else(PoisonError::into_inner);
    if IS_STUCK.load(Ordering::Relaxed) || !has_handler() {
        return None;
    }
    let mut room = StackRoom::new();
    THREAD.store(thread.cast_unsigned(), Ordering::Relaxed);
    let idle = (STATE.load(Ordering::Relaxed) & !(NEXT - 1)).wrapping_add(NEXT);
    let (asked, claimed, held) = (idle | ASKED, idle | CLAIMED, idle | HELD);
    // Release: the handler sees the thread.
    STATE.store(asked, Ordering::Release);
    // SAFETY: a system call without pointers. The signal has a handler, so it ends no process.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGURG) };
    if sent == 0 {
        wait_while(asked, ANSWER_TIME);
    }
    if STATE.compare_exchange(asked, idle, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        return None;
    }
    wait_while(claimed, CLAIM_TIME);
    // Acquire: the registers were stored before the thread was held.
    match STATE.load(Ordering::Acquire) {
        state if state == held => {}
        state if state == claimed => {
            // It may store its registers at any time, so nobody else can be asked.
            IS_STUCK.store(true, Ordering::Relaxed);
            return None;
        }
        _ => return None,
    }
    let [instruction, stack, frame] = [0, 1, 2].map(|at| REGISTERS[at].load(Ordering::Relaxed));
    let is_copied = room.fill(SavedRegisters { instruction, stack, frame }, own_stack);
    let was_held = STATE.compare_exchange(held, idle, Ordering::AcqRel, Ordering::Acquire);
    futex_wake(&STATE);
    // Otherwise the thread continued while its frames were copied.
    (is_copied && was_held.is_ok()).then(|| room.into_copy())
}

/// Waits while the state is this one, for `limit` at most.
fn wait_while(state: u32, limit: Duration) {
    let end_ns = monotonic_ns() + limit.as_nanos() as u64;
    while STATE.load(Ordering::Acquire) == state && monotonic_ns() < end_ns {
        let _ = futex_wait_for(&STATE, state, false, limit);
    }
}

/// Installs the handler, unless the program has one; returns whether it is installed.
fn has_handler() -> bool {
    let handler = hold as *const () as usize;
    match current_handler() {
        Some(current) if current == handler => true,
        Some(libc::SIG_DFL) => install(handler),
        _ => false,
    }
}

fn current_handler() -> Option<libc::sighandler_t> {
    // SAFETY: all fields of this C structure may be zero.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: it only reads the action of the signal, into a structure of its type.
    let read = unsafe { libc::sigaction(libc::SIGURG, std::ptr::null(), &raw mut action) };
    (read == 0).then_some(action.sa_sigaction)
}

fn install(handler: usize) -> bool {
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    // On the signal stack, because the stack of a fiber may be too small.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `hold` has the type that SA_SIGINFO asks for, and does only what a handler may do.
    let done = unsafe { libc::sigaction(libc::SIGURG, &raw const action, &raw mut before) } == 0;
    if done && before.sa_sigaction != libc::SIG_DFL {
        // The program has installed one since the look.
        // SAFETY: the action that was there.
        unsafe { libc::sigaction(libc::SIGURG, &raw const before, std::ptr::null_mut()) };
        return false;
    }
    done
}

/// The handler: publishes the registers and waits until they were used. It makes system calls
/// without libc, so errno stays as it is.
extern "C" fn hold(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // Acquire: pairs with the store of `asked`.
    let asked = STATE.load(Ordering::Acquire);
    if asked % NEXT != ASKED || THREAD.load(Ordering::Relaxed) != thread_id().cast_unsigned() {
        return;
    }
    let (claimed, held) = (asked - ASKED + CLAIMED, asked - ASKED + HELD);
    if STATE.compare_exchange(asked, claimed, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    // SAFETY: with SA_SIGINFO the kernel passes the context of the interrupted code.
    let registers = registers_in(unsafe { &*context.cast::<libc::ucontext_t>() });
    for (word, register) in REGISTERS.iter().zip(registers) {
        word.store(register, Ordering::Relaxed);
    }
    let idle = asked - ASKED + IDLE;
    // Release: the asker that sees `held` sees the registers.
    if STATE.compare_exchange(claimed, held, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    futex_wake(&STATE);
    wait_while(held, HOLD_TIME);
    let _ = STATE.compare_exchange(held, idle, Ordering::AcqRel, Ordering::Relaxed);
}

#[cfg(target_arch = "x86_64")]
fn registers_in(context: &libc::ucontext_t) -> [usize; 3] {
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP].map(register)
}

/// Backtraces are made on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
fn registers_in(_: &libc::ucontext_t) -> [usize; 3] {
    [0; 3]
}
