//! SIGTERM and Ctrl-C: the first is a request, the second ends the program at once.

use std::{
    process, thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::Failure;

/// Watches on a plain thread, where `on_first` may block. What follows the first signal within
/// `echo` is not yet the second.
pub(crate) fn watch(
    echo: Duration,
    on_first: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::other(format!(
            "cannot watch for signals: {error}; raise `ulimit -n` and try again"
        ))
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    let watcher = move || {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        let first = Instant::now();
        on_first();
        for signal in signals {
            if first.elapsed() >= echo {
                process::exit(128 + signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(cannot)?;
    Ok(())
}
