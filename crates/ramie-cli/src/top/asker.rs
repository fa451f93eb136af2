//! The thread that asks the process, so that keys are answered while the process is slow.

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use super::screen::Update;
use crate::{
    dump,
    failure::Failure,
    inspect::{self, Source},
};

/// How long the process may take to begin an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// The time until the second view, which is the first one with loads.
const SECOND: Duration = Duration::from_millis(250);

/// The ends of the channels to the thread, which ends when this is dropped.
pub(super) struct Asker {
    strands: Sender<String>,
    pub(super) updates: Receiver<Update>,
}

impl Asker {
    pub(super) fn start(pid: u32, source: Source, interval: Duration) -> Result<Asker, Failure> {
        let (strands, wanted) = mpsc::channel();
        let (news, updates) = mpsc::channel();
        let asks = move || ask_until_nobody_wants(pid, source, interval, &wanted, &news);
        let builder = thread::Builder::new().name("asker".to_owned());
        builder.spawn(asks).map_err(|error| {
            Failure::other(format!("cannot start a thread ({error}); raise `ulimit -u`"))
        })?;
        Ok(Asker { strands, updates })
    }

    /// Asks for a strand, whose text will be an update.
    pub(super) fn ask(&self, id: String) {
        // If the thread has ended, its last update is on the way.
        let _ = self.strands.send(id);
    }
}

fn ask_until_nobody_wants(
    pid: u32,
    mut source: Source,
    interval: Duration,
    wanted: &Receiver<String>,
    news: &Sender<Update>,
) {
    let mut next = Instant::now() + SECOND.min(interval);
    loop {
        let update = match wanted.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(id) => {
                let text = inspect::strand(pid, &id, LIMIT);
                Update::Strand { id, text: text.unwrap_or_else(|failure| failure.to_string()) }
            }
            Err(RecvTimeoutError::Timeout) => {
                let view = source.view();
                next = Instant::now() + interval;
                match view {
                    Ok(view) => Update::View(Box::new(view)),
                    Err(_) if dump::command_of(pid).is_none() => Update::Ended,
                    Err(failure) => Update::Problem(failure.to_string()),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let is_last = matches!(update, Update::Ended);
        if news.send(update).is_err() || is_last {
            return;
        }
    }
}
