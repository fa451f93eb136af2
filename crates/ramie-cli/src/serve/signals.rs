//! SIGTERM and Ctrl-C: the first signal stops the server, the second ends the program at once.

use std::{sync::Arc, thread, time::Duration};

use super::connections::Connections;
use crate::{failure::Failure, signals};

/// How long a new connection may take to begin its first request once the server stops.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

pub(super) fn watch(connections: Arc<Connections>) -> Result<(), Failure> {
    signals::watch(move || {
        connections.stop();
        // If no thread can be started, the runtime's grace period ends these connections.
        let _ = thread::Builder::new().spawn(move || {
            thread::sleep(FIRST_REQUEST_GRACE);
            connections.dismiss_all();
        });
    })
}
