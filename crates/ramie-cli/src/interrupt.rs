//! Ctrl-C: the first one stops the measurement and keeps the readings, the second ends the program.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{failure::Failure, signals};

/// Whether the user wants the program to end.
#[derive(Debug)]
pub(crate) struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// Treats Ctrl-C and SIGTERM as requests to stop from now on.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&requested);
        signals::watch(move |_| flag.store(true, Ordering::Relaxed))?;
        Ok(Interrupt { requested })
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The same, but also true for a request that comes within `time`, because the signal may reach
    /// another process earlier than the thread that watches for it here.
    pub(crate) fn is_requested_within(&self, time: Duration) -> bool {
        let start = Instant::now();
        while !self.is_requested() && start.elapsed() < time {
            thread::sleep(Duration::from_millis(1));
        }
        self.is_requested()
    }
}
