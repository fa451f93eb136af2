//! Reports of stack overflows.
//!
//! An overflow touches the guard, which raises SIGSEGV (SIGBUS on some systems). This handler looks
//! the address up. If it lies in the guard of the stack on which the fault happened, the handler
//! prints which coroutine overflowed and the remedy, and aborts. It passes any other fault to the
//! handler that was installed before, std's or the program's own, with unchanged behaviour.
//!
//! A handler needs a signal stack per thread. The threads that std starts have one; other threads
//! get one from [`install`], which the creation of a pool calls.
//!
//! The handler allocates nothing and takes no lock: it reads the table of chunks, the label, and
//! the data of the describer.
#![allow(unsafe_code)]

mod signal_stack;

use std::{
    ffi::c_void,
    fmt::{self, Write},
    mem,
    sync::{Once, OnceLock},
};

use crate::{
    stack::{GUARD_BYTES, StackInfo},
    sys,
};

pub use crate::stack::stack_of;

/// Writes which code has overflowed that stack, and the remedy; returns false if it has written
/// nothing.
pub type Describer = fn(&StackInfo, &mut dyn Write) -> bool;

static DESCRIBER: OnceLock<Describer> = OnceLock::new();

/// Adds a runtime's description to the report: which fiber is running, and how to enlarge its
/// stack.
///
/// The first one that is set stays.
///
/// # Safety
/// It is called in a signal handler: it does not allocate, lock or suspend.
pub unsafe fn set_describer(describer: Describer) {
    let _ = DESCRIBER.set(describer);
}

/// Installs the handler that reports overflows, and gives this thread a signal stack unless it has
/// one.
///
/// The creation of a [`StackPool`](crate::StackPool) or a coroutine calls this. The second call on
/// a thread costs a read of a thread-local.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| SIGNALS.iter().enumerate().for_each(|(at, signal)| install_for(at, *signal)));
    signal_stack::ensure();
}

/// Returns whether the calling code is a signal handler that runs on this thread's signal stack. A
/// handler installed without `SA_ONSTACK` runs on the interrupted stack, so this cannot detect it.
/// Costs a system call.
#[must_use]
pub fn is_in_signal_handler() -> bool {
    sys::signal_stack().ss_flags & libc::SS_ONSTACK != 0
}

const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The actions of the signals before this handler was installed.
static PREVIOUS: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

fn install_for(at: usize, signal: libc::c_int) {
    // Stored before this handler is set, because it may be called at once.
    let previous = PREVIOUS[at].get_or_init(|| sys::signal_action(signal));
    let mut action = *previous;
    let handler: Handler = on_fault;
    action.sa_sigaction = handler as usize;
    // The previous handler's mask and these flags are kept.
    let kept = previous.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
    action.sa_flags = kept | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `on_fault` is written for signal handlers, see the module's documentation.
    unsafe { sys::set_signal_action(signal, &action) };
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: SA_SIGINFO: the kernel passes the description of the signal.
    let info_ref = unsafe { &*info };
    // Only the kernel's own faults have a code above 0 and an address.
    if info_ref.si_code > 0 {
        // SAFETY: SIGSEGV and SIGBUS from the kernel have an address.
        let address = unsafe { info_ref.si_addr() }.addr();
        // SAFETY: SA_SIGINFO: the kernel passes the registers.
        let pointer = unsafe { stack_pointer(context) };
        if let Some(stack) = overflowed(address, pointer) {
            report(&stack, address);
            std::process::abort();
        }
    }
    // SAFETY: the arguments are the kernel's own.
    unsafe { forward(signal, info, context) };
}

/// The stack that this access overflowed, if the access was made with this stack pointer.
///
/// An access to a guard from another stack is a stray pointer, so it is no overflow. The label may
/// be read only by the thread that owns the stack.
fn overflowed(address: usize, pointer: Option<usize>) -> Option<StackInfo> {
    let stack = stack_of(address).filter(|stack| address < stack.floor())?;
    let is_on_it = |pointer| (stack.limit()..=stack.base()).contains(&pointer);
    pointer.is_none_or(is_on_it).then_some(stack)
}

/// # Safety
/// `context` was passed by the kernel to a handler with SA_SIGINFO.
unsafe fn stack_pointer(context: *mut c_void) -> Option<usize> {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the caller's promise.
    let registers = unsafe { &(*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return Some(registers.gregs[libc::REG_RSP as usize] as usize);
    #[cfg(target_arch = "aarch64")]
    return Some(registers.sp as usize);
    #[cfg(target_arch = "riscv64")]
    return Some(registers.__gregs[libc::REG_SP] as usize);
    #[allow(unreachable_code)]
    {
        let _ = registers;
        None
    }
}

/// Writes to standard error without a buffer or a lock.
struct Stderr;

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        sys::write_stderr(text.as_bytes());
        Ok(())
    }
}

/// The remedy for a coroutine of the program.
pub const REMEDY: &str = "\
    Give it a larger stack with the coroutine's Builder::stack_size. The bodies of effects, reset \
    and of named scopes have stacks of the default size: call the deep function outside of these.";

fn report(stack: &StackInfo, address: usize) {
    let mut out = Stderr;
    // SAFETY: null, or a label that only this thread changes, which runs this handler on that stack
    // (`overflowed`).
    let label = unsafe { stack.label().as_ref() }.map_or("a coroutine", |label| label);
    let size = stack.size().usable_bytes();
    let (floor, base) = (stack.floor(), stack.base());
    let _ = write!(
        out,
        "\n{label} has overflowed its stack: all {size} bytes usable at {floor:#x}..{base:#x} are \
         used, and it touched {address:#x} in the guard of {GUARD_BYTES} bytes below. "
    );
    if !DESCRIBER.get().is_some_and(|describe| describe(stack, &mut out)) {
        let _ = out.write_str(REMEDY);
    }
    let _ = out.write_str("\n");
}

/// Passes a signal to the previous handler or action.
///
/// # Safety
/// The arguments were passed by the kernel to the handler.
unsafe fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let at = usize::from(signal == libc::SIGBUS);
    let Some(previous) = PREVIOUS[at].get() else { return };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: as for `forward`.
            let is_fault = unsafe { (*info).si_code } > 0;
            // SAFETY: the action that was installed before, not this handler.
            unsafe { restore_and_repeat(signal, previous, is_fault) };
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler set with SA_SIGINFO has this type.
            let handler = unsafe { mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler set without SA_SIGINFO has this type.
            let handler = unsafe { mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

/// Lets the kernel take its default action. A fault happens again when the handler returns; a
/// signal that a process sent is sent once more.
///
/// # Safety
/// `previous` is a default or ignoring action.
unsafe fn restore_and_repeat(signal: libc::c_int, previous: &libc::sigaction, is_fault: bool) {
    if previous.sa_sigaction == libc::SIG_IGN && !is_fault {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { sys::set_signal_action(signal, previous) };
    if !is_fault {
        sys::raise(signal);
    }
}
