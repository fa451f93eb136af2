//! SIGTERM and Ctrl-C: the first asks the house to stop, the second ends the program at once.

use std::{process, sync::Arc, thread, time::Duration};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use super::house::House;
use crate::failure::Failure;

/// How long a guest may take to begin its first request once the house was told to stop.
const TIME_TO_ASK: Duration = Duration::from_secs(1);

/// Watches on a plain thread, which may block.
pub(super) fn watch(house: Arc<House>) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::other(format!(
            "cannot watch for signals: {error}; raise `ulimit -n` and try again"
        ))
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    let watcher = move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            house.stop();
            let house = Arc::clone(&house);
            // Where there is no thread to be had, the runtime's grace is what ends their wait.
            let _ = thread::Builder::new().spawn(move || {
                thread::sleep(TIME_TO_ASK);
                house.dismiss_all();
            });
        }
        if let Some(signal) = signals.next() {
            process::exit(128 + signal);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(cannot)?;
    Ok(())
}
