//! Guards: an overflow faults on the guard instead of corrupting the next stack. Their size is
//! `GUARD_BYTES` in `size.rs`.
//!
//! The kernel's guard regions (`MADV_GUARD_INSTALL`, Linux 6.13) live in the page table and split
//! no VMA. One trial per process shows whether they work. If not, or if the kernel refuses one
//! later because the process has locked its memory meanwhile, `mprotect` makes the guards. Each of
//! those costs two VMAs. Their number is limited to 45 % of `vm.max_map_count`, so guards use at
//! most 90 % of the VMAs and leave the rest to the program.
#![allow(unsafe_code)]

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::{StackError, chunk::Chunk};
use crate::sys::{self, Advise};

/// The mechanism of the guards below stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardKind {
    /// By `madvise(MADV_GUARD_INSTALL)`: no VMA of its own, any number of them.
    Advice,
    /// By `mprotect`: two VMAs each, at most 45 % of `vm.max_map_count` of them.
    Protection,
}

/// The mechanism of guards in this process, and the reason for it.
#[derive(Clone, Copy, Debug)]
pub struct Guards {
    kind: GuardKind,
    errno: Option<i32>,
}

impl Guards {
    /// Returns the mechanism of guards.
    #[must_use]
    pub fn kind(&self) -> GuardKind {
        self.kind
    }

    /// Returns the error number with which the kernel refused guards by advice, if it did.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno
    }

    /// Returns the reason for the mechanism in a few words.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match (self.kind, self.errno) {
            (GuardKind::Advice, _) => "the kernel has guard regions (Linux 6.13 or later)",
            (_, None) => "a test has chosen guards by mprotect",
            (_, Some(libc::EINVAL)) => {
                "the kernel is older than Linux 6.13, or the process has locked its memory with \
                 mlockall"
            }
            (_, Some(libc::EPERM | libc::ENOSYS)) => "a seccomp filter refuses the advice",
            (_, Some(libc::ENOMEM | libc::EAGAIN)) => {
                "there was no memory for the trial, because a memory limit is reached"
            }
            _ => "the kernel refused the trial for an unknown reason",
        }
    }
}

static GUARDS: OnceLock<Guards> = OnceLock::new();

/// Returns the mechanism of guards in this process; the first call tries it.
#[must_use]
pub fn guards() -> Guards {
    *GUARDS.get_or_init(|| match trial() {
        Ok(()) => Guards { kind: GuardKind::Advice, errno: None },
        Err(errno) => Guards { kind: GuardKind::Protection, errno: Some(errno.raw_os_error()) },
    })
}

/// Makes guards by `mprotect` even if the kernel supports guard regions, to test the fallback.
///
/// # Panics
/// If a stack exists already.
#[doc(hidden)]
pub fn force_protection() {
    let forced = GUARDS.set(Guards { kind: GuardKind::Protection, errno: None });
    assert!(forced.is_ok(), "guards must be chosen before the first stack is made");
}

fn trial() -> Result<(), rustix::io::Errno> {
    let page = sys::page_size();
    let start = sys::map_stacks(2 * page)?;
    // SAFETY: just mapped, so no other code uses it.
    let result = unsafe { sys::advise(start, page, Advise::InstallGuard) };
    // SAFETY: as above.
    unsafe { sys::unmap(start, 2 * page) };
    result
}

/// Sets the guards of `count` stacks from `first` on, and returns how many of them have one now.
///
/// # Safety
/// These stacks have not been handed out yet.
pub(crate) unsafe fn install(
    chunk: &Chunk,
    first: u32,
    count: u32,
) -> (u32, Result<(), StackError>) {
    let mut done = 0;
    if guards().kind == GuardKind::Advice {
        let starts = (first..first + count).map(|slot| chunk.limit(slot));
        // SAFETY: guards of fresh stacks, which are mapped for good and hold nothing.
        let (advised, result) =
            unsafe { sys::advise_many(starts, chunk.guard_bytes(), Advise::InstallGuard) };
        if result.is_ok() {
            return (count, Ok(()));
        }
        // Refused although the trial succeeded: the memory was locked meanwhile.
        done = advised as u32;
    }
    while done < count {
        // SAFETY: the guard of a fresh stack, see above.
        if let Err(error) = unsafe { protect_one(chunk, first + done) } {
            return (done, Err(error));
        }
        done += 1;
    }
    (count, Ok(()))
}

/// The number of guards made by `mprotect`. Stacks are never unmapped, so it only grows.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// The stack has not been handed out yet.
unsafe fn protect_one(chunk: &Chunk, slot: u32) -> Result<(), StackError> {
    let limit = map_limit();
    let allowed = limit / 100 * 45;
    let before = PROTECTED.fetch_add(1, Relaxed);
    if before >= allowed {
        PROTECTED.fetch_sub(1, Relaxed);
        return Err(StackError::guard_limit(before, limit));
    }
    // SAFETY: the guard of a fresh stack, which is never unmapped and not in use.
    unsafe { sys::protect(chunk.limit(slot), chunk.guard_bytes()) }.map_err(|errno| {
        PROTECTED.fetch_sub(1, Relaxed);
        StackError::guard(errno)
    })
}

/// The number of guards made by `mprotect`.
pub(crate) fn protected() -> usize {
    PROTECTED.load(Relaxed)
}

/// `vm.max_map_count`, or the kernel's default if it cannot be read.
fn map_limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        text.trim().parse().unwrap_or(65_530)
    })
}
