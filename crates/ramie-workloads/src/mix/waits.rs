//! The calls by which a strand waits: those of Ramie on fibers, those of std on threads.

use std::{fs, io, os::fd::AsFd, sync, time::Duration};

use crate::{OnFibers, OnThreads};

/// The calls by which a kind of strand waits. A library that blocks has those of threads, whatever
/// strand calls it.
pub trait Waits {
    /// A file.
    type File: From<fs::File> + AsFd + Send + Sync + 'static;
    /// A lock around a number.
    type Lock: Send + Sync + 'static;

    /// Waits for a time.
    fn sleep(time: Duration);
    /// Fills `buffer` from the file's bytes at `offset`.
    fn read_exact_at(file: &Self::File, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Makes a lock around 0.
    fn lock() -> Self::Lock;
    /// Waits for the lock and calls `f` while holding it.
    fn with<T>(lock: &Self::Lock, f: impl FnOnce(&mut u64) -> T) -> T;
}

impl Waits for OnFibers {
    type File = ramie::fs::File;
    type Lock = ramie::sync::Mutex<u64>;

    fn sleep(time: Duration) {
        ramie::fiber::sleep(time);
    }

    fn read_exact_at(file: &Self::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        ramie::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
    }

    fn lock() -> Self::Lock {
        ramie::sync::Mutex::new(0)
    }

    fn with<T>(lock: &Self::Lock, f: impl FnOnce(&mut u64) -> T) -> T {
        f(&mut lock.lock().unwrap_or_else(ramie::sync::PoisonError::into_inner))
    }
}

impl Waits for OnThreads {
    type File = fs::File;
    type Lock = sync::Mutex<u64>;

    fn sleep(time: Duration) {
        std::thread::sleep(time);
    }

    fn read_exact_at(file: &Self::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
    }

    fn lock() -> Self::Lock {
        sync::Mutex::new(0)
    }

    fn with<T>(lock: &Self::Lock, f: impl FnOnce(&mut u64) -> T) -> T {
        f(&mut lock.lock().unwrap_or_else(sync::PoisonError::into_inner))
    }
}
