//! Signal handlers of Ramie: how they are installed, and the effect of a signal while nothing
//! listens.
//!
//! A listener is a function that runs in the handler. While a signal has listeners, its default
//! effect is suppressed. When the last one is dropped, the signal has its earlier effect again.
#![allow(unsafe_code)]

use std::{
    fs,
    io,
    // std's atomics rather than those of the models, because the handler shares them and no model
    // covers it.
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use signal_hook::{SigId, low_level};

/// The number of listeners of each signal.
static LISTENING: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// The bits of the signals for which [`keep_default`] has run.
static DEFAULTS: Mutex<u64> = Mutex::new(0);

/// A listener of one signal, from 1 to 64; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    signal: i32,
    id: SigId,
}

impl Listening {
    /// Calls `act` in the handler of the signal from now on. A handler that was installed before is
    /// called first.
    ///
    /// # Safety
    /// `act` does only things that a handler may do: atomics, and system calls that are safe there.
    ///
    /// # Errors
    /// The kernel refuses a handler for this signal.
    pub(crate) unsafe fn new(
        signal: i32,
        act: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let count = &LISTENING[signal as usize];
        count.fetch_add(1, Ordering::SeqCst);
        let registered = keep_default(signal).and_then(|()| {
            // SAFETY: the caller vouches for `act`.
            unsafe { low_level::register(signal, act) }
        });
        match registered {
            Ok(id) => Ok(Listening { signal, id }),
            Err(error) => {
                count.fetch_sub(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENING[self.signal as usize].fetch_sub(1, Ordering::SeqCst);
        low_level::unregister(self.id);
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Makes sure, once for each signal, that the signal has its default effect while nothing listens.
/// The handler is never removed, because the removal could race with code that installs another.
fn keep_default(signal: i32) -> io::Result<()> {
    let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    if *defaults & bit(signal) != 0 {
        return Ok(());
    }
    if has_default(signal) {
        let act = move || {
            if LISTENING[signal as usize].load(Ordering::SeqCst) == 0 {
                // It can fail only for signals that do not exist.
                let _ = low_level::emulate_default_handler(signal);
            }
        };
        // SAFETY: an atomic load, and a function made to be called from handlers.
        unsafe { low_level::register(signal, act) }?;
    }
    *defaults |= bit(signal);
    Ok(())
}

/// Whether the signal has its default effect now.
fn has_default(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has_bit = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & bit(signal) != 0)
    };
    !has_bit("SigIgn:") && !has_bit("SigCgt:")
}
