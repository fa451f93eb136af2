//! Notices a fork: one page that the kernel wipes in a child.
//!
//! A child shares its parent's rings and epoll sets, so whatever it does with a driver happens to
//! the parent. A driver therefore looks at the page (one load) before it touches the kernel.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// Says whether this process is still the one that made the mark.
#[derive(Clone, Copy, Debug)]
pub struct ForkMark(&'static AtomicU8);

static UNMARKED: AtomicU8 = AtomicU8::new(1);
static MARK: OnceLock<ForkMark> = OnceLock::new();

impl ForkMark {
    /// Returns the process's mark. On kernels before 4.14 it never notices a fork.
    pub fn get() -> ForkMark {
        *MARK.get_or_init(|| wiped_page().unwrap_or(ForkMark(&UNMARKED)))
    }

    /// Tells whether the process was forked since the mark was made, and this is the child.
    #[inline]
    pub fn is_child(self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

fn wiped_page() -> Option<ForkMark> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, prot, flags) }.ok()?;
    // SAFETY: the page is ours and holds nothing yet.
    let wiped = unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) };
    wiped.ok()?;
    // SAFETY: the page is mapped for good, zeroed (a valid AtomicU8) and aligned.
    let mark: &'static AtomicU8 = unsafe { &*page.cast::<AtomicU8>() };
    mark.store(1, Ordering::Relaxed);
    Some(ForkMark(mark))
}

/// At least one page on any machine; mappings are rounded up.
const PAGE: usize = 4096;
