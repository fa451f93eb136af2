//! Ctrl-C: the first ends the measuring and keeps what there is, the second ends the program.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::failure::Failure;

/// Whether the user wants the lab to end.
#[derive(Debug)]
pub(super) struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on Ctrl-C and SIGTERM are requests.
    pub(super) fn watch() -> Result<Self, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: a signal that finds the flag set already ends the program.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&requested))
                .and_then(|_| flag::register(signal, Arc::clone(&requested)))
                .map_err(|error| Failure::other(format!("cannot watch for Ctrl-C: {error}")))?;
        }
        Ok(Interrupt { requested })
    }

    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}
