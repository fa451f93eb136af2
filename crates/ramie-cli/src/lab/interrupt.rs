//! Ctrl-C: the first ends the measuring and keeps what there is, the second ends the program.

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
    /// From now on Ctrl-C and SIGTERM are requests.
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
