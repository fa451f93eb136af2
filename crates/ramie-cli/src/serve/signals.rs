//! SIGTERM and Ctrl-C: the first asks the house to stop, the second ends the program at once.

use std::{process, sync::Arc, thread};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use super::house::House;
use crate::failure::Failure;

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
        }
        if let Some(signal) = signals.next() {
            process::exit(128 + signal);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(cannot)?;
    Ok(())
}
