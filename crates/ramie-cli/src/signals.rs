//! SIGTERM and Ctrl-C: the first is a request, the second ends the program at once; the same one
//! within 200 ms is no second one, but an echo.

use std::{
    process, thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::Failure;

/// The same signal again within so much time is the first one's echo: `timeout` signals its child,
/// and then the group that the child is in.
const ECHO: Duration = Duration::from_millis(200);

/// Watches on a plain thread, where `on_first` may block.
pub(crate) fn watch(on_first: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::other(format!(
            "cannot watch for signals: {error}; raise `ulimit -n` and try again"
        ))
    };
    let no_thread = |error| {
        Failure::other(format!(
            "there is no thread to watch for signals: {error}; raise `ulimit -v` or `ulimit -u`"
        ))
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    let watcher = move || {
        // Whoever started this program may have blocked them; one thread that does not is enough.
        ramie_driver::sys::supervise::unblock(&[SIGINT, SIGTERM]);
        let mut signals = signals.forever();
        let Some(first) = signals.next() else { return };
        let since = Instant::now();
        on_first();
        for signal in signals {
            if signal != first || since.elapsed() >= ECHO {
                process::exit(128 + signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(no_thread)?;
    Ok(())
}
