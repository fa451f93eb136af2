//! SIGTERM and Ctrl-C: the first asks the house to stop, the second ends the program at once.

use std::{sync::Arc, thread, time::Duration};

use super::house::House;
use crate::{failure::Failure, signals};

/// How long a guest may take to begin its first request once the house was told to stop.
const TIME_TO_ASK: Duration = Duration::from_secs(1);

pub(super) fn watch(house: Arc<House>) -> Result<(), Failure> {
    signals::watch(move || {
        house.stop();
        // Where there is no thread to be had, the runtime's grace is what ends their wait.
        let _ = thread::Builder::new().spawn(move || {
            thread::sleep(TIME_TO_ASK);
            house.dismiss_all();
        });
    })
}
