//! Ctrl-C: the first stops the measuring and keeps the readings, the second ends the program.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{failure::Failure, signals};

/// Whether the user wants the lab to end.
#[derive(Debug)]
pub(super) struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// Treats Ctrl-C and SIGTERM as requests to stop from now on.
    pub(super) fn watch() -> Result<Self, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&requested);
        signals::watch(move || flag.store(true, Ordering::Relaxed))?;
        Ok(Interrupt { requested })
    }

    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}
