//! SIGTERM and Ctrl-C: the first signal asks the program to stop, the second ends it at once. A
//! signal of the same kind within 200 ms does not count, because it is an echo of the first.

use std::{
    process, thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::Failure;

/// The same signal within this time is an echo of the first one: `timeout` signals its child, and
/// then the process group of the child.
const ECHO: Duration = Duration::from_millis(200);

/// Watches on an OS thread of its own, so `on_first`, which gets the signal, may block.
pub(crate) fn watch(on_first: impl FnOnce(i32) + Send + 'static) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::other(format!(
            "cannot watch for signals ({error}); raise `ulimit -n` and try again"
        ))
    };
    let no_thread = |error| {
        Failure::other(format!(
            "cannot start the thread that watches for signals ({error}); raise `ulimit -v` or \
             `ulimit -u`"
        ))
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    let watcher = move || {
        // The parent process may have blocked the signals; one thread that accepts them is enough.
        ramie_driver::sys::supervise::unblock(&[SIGINT, SIGTERM]);
        let mut signals = signals.forever();
        let Some(first) = signals.next() else { return };
        let since = Instant::now();
        on_first(first);
        for signal in signals {
            if signal != first || since.elapsed() >= ECHO {
                process::exit(128 + signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(no_thread)?;
    Ok(())
}
