//! Ctrl-C: the first ends the measuring and keeps what there is, the second ends the program.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::Failure;

/// What follows the first signal within so much time is its echo: `timeout` signals its child, and
/// then the group that the child is in.
const ECHO: Duration = Duration::from_millis(300);

/// Whether the user wants the lab to end.
#[derive(Debug)]
pub(super) struct Interrupt {
    requested: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on Ctrl-C and SIGTERM are requests.
    pub(super) fn watch() -> Result<Self, Failure> {
        let failed = |error| Failure::other(format!("cannot watch for Ctrl-C: {error}"));
        let signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let requested = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&requested);
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || heed(signals, &flag)).map_err(failed)?;
        Ok(Interrupt { requested })
    }

    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

fn heed(mut signals: Signals, requested: &AtomicBool) {
    let mut first = None;
    for signal in signals.forever() {
        requested.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() > ECHO {
            process::exit(128 + signal);
        }
    }
}
