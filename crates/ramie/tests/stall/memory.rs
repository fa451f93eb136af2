//! Fibers that wait for a page of memory.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::null_mut,
    thread,
};

use ramie::StallCause;

use crate::{
    common::skipped,
    reports::{FIFTY, stall_of},
};

/// A descriptor whose owner provides the pages of memory that is registered with it.
fn userfaultfd() -> io::Result<OwnedFd> {
    /// `UFFD_USER_MODE_ONLY`, which needs no privileges.
    const USER_MODE_ONLY: i32 = 1;
    // SAFETY: the call has no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether this machine has pages for [`touch_a_slow_page`]. Reports if it has not.
pub(crate) fn has_slow_pages() -> bool {
    userfaultfd().map_err(|error| skipped(format!("userfaultfd: {error}"))).is_ok()
}

/// Reads from memory whose pages come after 300 ms.
pub(crate) fn touch_a_slow_page() {
    const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
    const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
    const REGISTER_MODE_MISSING: u64 = 1;
    /// A multiple of the page size everywhere.
    const LEN: usize = 0x1_0000;
    let owner = userfaultfd().unwrap();
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: this maps new memory.
    let memory = unsafe { libc::mmap(null_mut(), LEN, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    // `struct uffdio_api`: the version, features and possible calls.
    let mut api = [0xaa_u64, 0, 0];
    // `struct uffdio_register`: the range, the mode and possible calls.
    let mut range = [memory.addr() as u64, LEN as u64, REGISTER_MODE_MISSING, 0];
    let requests = [(UFFDIO_API, api.as_mut_ptr()), (UFFDIO_REGISTER, range.as_mut_ptr())];
    for (request, argument) in requests {
        // SAFETY: the argument is the struct of this request.
        let result = unsafe { libc::ioctl(owner.as_raw_fd(), request, argument) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
    let closes = thread::spawn(move || {
        thread::sleep(6 * FIFTY);
        // From now on these pages are like others, and the fault is served.
        drop(owner);
    });
    // SAFETY: the memory is mapped.
    assert_eq!(unsafe { memory.cast::<u8>().read_volatile() }, 0);
    closes.join().unwrap();
    // SAFETY: nothing refers to the memory any more.
    assert_eq!(unsafe { libc::munmap(memory, LEN) }, 0);
}

#[test]
fn a_page_fault_is_named() {
    if has_slow_pages() {
        let stall = stall_of(1, touch_a_slow_page);
        assert_eq!(*stall.cause(), StallCause::PageFault);
        assert!(stall.to_string().contains("rather than mapping it"), "{stall}");
    }
}
