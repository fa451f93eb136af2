//! Forking, and noticing a fork by a page that the kernel wipes in the child.
//!
//! A child shares its parent's rings and epoll sets, so its use of a driver affects the parent. A
//! driver therefore looks at the page (one load) before it touches the kernel.
#![allow(unsafe_code)]

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::Pid;

/// Knows whether this process is still the one that made the mark.
#[derive(Clone, Copy, Debug)]
pub struct ForkMark(&'static AtomicU8);

static UNMARKED: AtomicU8 = AtomicU8::new(1);
static MARK: OnceLock<ForkMark> = OnceLock::new();

impl ForkMark {
    /// Returns the process's mark. On kernels before 4.14 it never notices a fork.
    pub fn get() -> ForkMark {
        *MARK.get_or_init(|| wiped_page().unwrap_or(ForkMark(&UNMARKED)))
    }

    /// Returns whether the process was forked since the mark was made, and this is the child.
    #[inline]
    pub fn is_child(self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

fn wiped_page() -> Option<ForkMark> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, prot, flags) }.ok()?;
    // SAFETY: the page was mapped above and holds nothing yet.
    let wiped = unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) };
    wiped.ok()?;
    // SAFETY: the page is mapped for good, zeroed (a valid AtomicU8) and aligned.
    let mark: &'static AtomicU8 = unsafe { &*page.cast::<AtomicU8>() };
    mark.store(1, Ordering::Relaxed);
    Some(ForkMark(mark))
}

/// At least one page on any machine; mappings are rounded up.
const PAGE: usize = 4096;

impl ForkMark {
    /// Returns whether the process has a mark, which it has if it ever opened a driver. A child
    /// that is forked after that can never open a driver.
    pub fn exists() -> bool {
        MARK.get().is_some()
    }
}

/// The two sides of a fork.
#[derive(Debug)]
pub enum Forked {
    /// This process, and the id of its child.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks a process that has one thread and has never opened a driver.
///
/// The fork is a call of the C library, because the library must adjust its locks and its thread
/// id, and call the handlers of `pthread_atfork`, in the child.
///
/// # Errors
/// There are other threads, or a driver was opened (`InvalidInput`, with a message); the system
/// refuses one more process (`EAGAIN`, `ENOMEM`).
pub fn fork() -> io::Result<Forked> {
    check_alone()?;
    // SAFETY: this is the only thread of the process, so in the child's copy of the memory no lock
    // is held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        id => Ok(Forked::Parent(Pid::from_raw(id).expect("fork gives positive ids"))),
    }
}

/// Checks that this process may be forked.
///
/// # Errors
/// As [`fork`].
pub fn check_alone() -> io::Result<()> {
    let refuse = |why: &str| {
        let cure = "fork first thing in main, before anything of Ramie, and before any thread";
        let sentence = format!("this process cannot be forked, since {why}; {cure}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, sentence))
    };
    if ForkMark::exists() {
        return refuse("it has made a ring or an epoll set, which a child would share");
    }
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => Ok(()),
        Ok(threads) => {
            refuse(&format!("it has {threads} threads, of which a child would have only one"))
        }
        Err(error) => {
            let sentence = format!(
                "this process cannot be forked, since its threads cannot be counted ({error}: \
                 /proc/self/task); see that /proc is mounted, and that `ulimit -n` leaves some"
            );
            Err(io::Error::new(error.kind(), sentence))
        }
    }
}
