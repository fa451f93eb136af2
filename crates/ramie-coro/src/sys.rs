//! The system calls of this crate. Calls on memory go through rustix, which does not use libc's
//! symbols. Calls that rustix lacks go through libc (signals, `mincore`, `process_madvise`, the
//! guard advices, calls at the end of a thread).
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_void},
    mem, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, MprotectFlags, ProtFlags},
};

/// Makes a range fault on every access, without a VMA of its own and without losing the guard to
/// `MADV_DONTNEED` or fork. Linux 6.13, `include/uapi/asm-generic/mman-common.h`.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// Names this process in place of a pidfd. Linux 6.14, `include/uapi/linux/pidfd.h`.
const PIDFD_SELF: libc::c_int = -10001;
/// The number of ranges passed to the kernel at once. The array lies on the caller's stack, which
/// may be a coroutine's of 32 KiB.
const RANGES_PER_CALL: usize = 128;

/// An advice about a range of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advise {
    InstallGuard,
    DontNeed,
}

impl Advise {
    fn number(self) -> libc::c_int {
        match self {
            Advise::InstallGuard => MADV_GUARD_INSTALL,
            Advise::DontNeed => libc::MADV_DONTNEED,
        }
    }
}

pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Maps memory for stacks: private, zero, committed page by page at first touch, never huge.
pub(crate) fn map_stacks(bytes: usize) -> Result<usize, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: a null hint and no MAP_FIXED: no existing mapping is touched.
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, flags) }?;
    // A kernel without huge pages refuses the advice and needs none.
    // SAFETY: the range was just mapped; the advice does not change its contents.
    let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxNoHugepage) };
    Ok(start.addr())
}

/// Unmaps a range.
///
/// # Safety
/// The range was mapped by this crate and is no longer in use.
pub(crate) unsafe fn unmap(start: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { rustix::mm::munmap(pointer(start), bytes) };
}

/// Makes a range inaccessible by its protection, which splits its VMA.
///
/// # Safety
/// The range was mapped by this crate and is not read or written any more.
pub(crate) unsafe fn protect(start: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { rustix::mm::mprotect(pointer(start), bytes, MprotectFlags::empty()) }
}

/// Gives one advice about one range.
///
/// # Safety
/// The range was mapped by this crate, and its contents are dead, because both advices discard
/// them.
pub(crate) unsafe fn advise(start: usize, bytes: usize, advise: Advise) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::madvise(pointer(start), bytes, advise.number()) }.into())
}

/// Gives one advice about many ranges of equal length, and returns how many ranges it reached.
///
/// One call for many ranges takes two thirds of the time of one call for each.
///
/// # Safety
/// As for [`advise`], for each range.
pub(crate) unsafe fn advise_many(
    starts: impl Iterator<Item = usize>,
    bytes: usize,
    advise: Advise,
) -> (usize, Result<(), Errno>) {
    let mut starts = starts.peekable();
    let mut done = 0;
    while starts.peek().is_some() {
        let mut ranges =
            [libc::iovec { iov_base: ptr::null_mut(), iov_len: bytes }; RANGES_PER_CALL];
        let mut count = 0;
        for (range, start) in ranges.iter_mut().zip(starts.by_ref().take(RANGES_PER_CALL)) {
            range.iov_base = pointer(start);
            count += 1;
        }
        // SAFETY: the caller's promise.
        let (advised, result) = unsafe { advise_batch(&ranges[..count], advise) };
        done += advised;
        if result.is_err() {
            return (done, result);
        }
    }
    (done, Ok(()))
}

/// # Safety
/// As for [`advise`], for each range.
unsafe fn advise_batch(ranges: &[libc::iovec], how: Advise) -> (usize, Result<(), Errno>) {
    let bytes = ranges[0].iov_len;
    // SAFETY: the caller's promise.
    let advised = unsafe { process_madvise(ranges, how) }.unwrap_or(0);
    // A range counts if it was done entirely. Both advices may be given twice.
    let done = advised / bytes;
    for (at, range) in ranges.iter().enumerate().skip(done) {
        // SAFETY: the caller's promise.
        if let Err(errno) = unsafe { advise(range.iov_base.addr(), bytes, how) } {
            return (at, Err(errno));
        }
    }
    (ranges.len(), Ok(()))
}

/// # Safety
/// As for [`advise`], for each range.
unsafe fn process_madvise(ranges: &[libc::iovec], advise: Advise) -> Result<usize, Errno> {
    /// 0: the kernel knows [`PIDFD_SELF`]; an errno: it does not.
    static SELF_REFUSED: AtomicI32 = AtomicI32::new(0);
    if SELF_REFUSED.load(Relaxed) == 0 {
        // SAFETY: the caller's promise.
        match unsafe { process_madvise_by(PIDFD_SELF, ranges, advise) } {
            Err(errno @ (Errno::BADF | Errno::NOSYS | Errno::PERM)) => {
                SELF_REFUSED.store(errno.raw_os_error(), Relaxed);
            }
            result => return result,
        }
    }
    // Opened for each batch, because after a fork a kept one would refer to the parent.
    // SAFETY: takes two integers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
    check(pidfd)?;
    let pidfd = pidfd as libc::c_int;
    // SAFETY: the caller's promise.
    let result = unsafe { process_madvise_by(pidfd, ranges, advise) };
    // SAFETY: opened above, and used nowhere else.
    unsafe { libc::close(pidfd) };
    result
}

/// # Safety
/// As for [`advise`], for each range; the pidfd refers to this process.
unsafe fn process_madvise_by(
    pidfd: libc::c_int,
    ranges: &[libc::iovec],
    advise: Advise,
) -> Result<usize, Errno> {
    let (number, flags) = (advise.number(), 0);
    let (start, count) = (ranges.as_ptr(), ranges.len());
    // SAFETY: the kernel reads `count` ranges, which are borrowed for the call; the rest is the
    // caller's promise.
    let advised =
        unsafe { libc::syscall(libc::SYS_process_madvise, pidfd, start, count, number, flags) };
    check(advised).map(|()| advised as usize)
}

/// Stores for each page from `start` on whether it is in memory, in the lowest bit of its byte.
pub(crate) fn resident(start: usize, pages: &mut [u8]) -> Result<(), Errno> {
    let bytes = pages.len() * page_size();
    // SAFETY: the kernel writes one byte per page, and `pages` has that length. The kernel only
    // examines the range, mapped or not.
    check(unsafe { libc::mincore(pointer(start), bytes, pages.as_mut_ptr()) }.into())
}

/// Returns the current action of a signal.
pub(crate) fn signal_action(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: all its fields are plain integers, for which zero is valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: writes one action to a place of that size.
    unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    action
}

/// Sets the action of a signal.
///
/// # Safety
/// The action's handler may be called at any time.
pub(crate) unsafe fn set_signal_action(signal: libc::c_int, action: &libc::sigaction) {
    // SAFETY: reads one action; the handler is the caller's promise.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

/// Fetches this thread's alternate signal stack.
pub(crate) fn signal_stack() -> libc::stack_t {
    let mut stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: writes one description to a place of that size.
    unsafe { libc::sigaltstack(ptr::null(), &mut stack) };
    stack
}

/// Sets this thread's alternate signal stack; none for a size of 0.
///
/// # Safety
/// The range is mapped, and stays so until another stack is set or the thread has ended.
pub(crate) unsafe fn set_signal_stack(start: usize, bytes: usize) {
    let ss_flags = if bytes == 0 { libc::SS_DISABLE } else { 0 };
    let stack = libc::stack_t { ss_sp: pointer(start), ss_flags, ss_size: bytes };
    // SAFETY: reads one description; the range is the caller's promise.
    unsafe { libc::sigaltstack(&stack, ptr::null_mut()) };
}

/// The smallest valid size of a signal stack on this machine, which depends on its registers.
pub(crate) fn min_signal_stack() -> usize {
    // SAFETY: takes an integer; unknown ones give 0.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    least.max(libc::MINSIGSTKSZ)
}

/// Writes to standard error, also from a signal handler. Errors are ignored.
pub(crate) fn write_stderr(mut text: &[u8]) {
    while !text.is_empty() {
        // SAFETY: reads the bytes that are borrowed for the call.
        let written = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => text = &text[written..],
            _ => return,
        }
    }
}

/// Sends a signal to this thread.
pub(crate) fn raise(signal: libc::c_int) {
    // SAFETY: takes an integer, and may be called from a signal handler.
    unsafe { libc::raise(signal) };
}

fn pointer(address: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address)
}

fn check(result: libc::c_long) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Err(Errno::from_raw_os_error(errno))
}

/// Returns the lowest address of the stack in use, in the caller or in one of its callees.
///
/// Not the address of a local: AddressSanitizer keeps locals elsewhere.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: copies a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: copies a register.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "riscv64")]
    // SAFETY: copies a register.
    unsafe {
        std::arch::asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

type AtThreadEnd = unsafe extern "C" fn(
    unsafe extern "C" fn(*mut c_void),
    *mut c_void,
    *mut c_void,
) -> libc::c_int;

fn find_at_thread_end() -> Option<AtThreadEnd> {
    const NAME: &CStr = c"__cxa_thread_atexit_impl";
    // SAFETY: the name ends with a NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    // SAFETY: null, or glibc's function of this name, which has this type (its
    // `stdlib/cxa_thread_atexit_impl.c`).
    unsafe { mem::transmute::<*mut c_void, Option<AtThreadEnd>>(found) }
}

/// Has `call` called with `argument` when this thread ends, before everything that was registered
/// earlier, the destructors of std's thread-locals among it. Returns false if the C library has no
/// such function.
pub(crate) fn at_thread_end(
    call: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> bool {
    /// Lies in this object file's segment, which must not be unloaded before the call.
    static HERE: u8 = 0;
    static FOUND: OnceLock<Option<AtThreadEnd>> = OnceLock::new();
    let Some(register) = FOUND.get_or_init(find_at_thread_end) else { return false };
    // SAFETY: it has this type and copies the arguments. The last one names the loaded object of
    // `call` by an address inside of it.
    unsafe { register(call, argument, (&raw const HERE).cast_mut().cast()) == 0 }
}
