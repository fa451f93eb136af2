//! A value that reports its drop.

use std::{
    sync::mpsc,
    thread::{self, ThreadId},
    time::Duration,
};

use ramie::channel::{Receiver, Sender, unbounded};

/// Longer than any wait of these tests takes.
const LONG: Duration = Duration::from_secs(60);

/// A value with an invariant that a use after its drop would break.
pub(crate) struct Tracked {
    numbers: Vec<u64>,
    dropped: Sender<ThreadId>,
}

/// The drops of one value.
pub(crate) struct Drops(Receiver<ThreadId>);

impl Tracked {
    pub(crate) fn new() -> (Self, Drops) {
        let (dropped, drops) = unbounded();
        (Tracked { numbers: vec![0], dropped }, Drops(drops))
    }

    /// Counts, and returns the number of calls.
    pub(crate) fn call(&mut self) -> u64 {
        let last = *self.numbers.last().expect("never empty before the drop");
        assert_eq!(last + 1, self.numbers.len() as u64);
        self.numbers.push(last + 1);
        last + 1
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.numbers.clear();
        let _ = self.dropped.send(thread::current().id());
    }
}

impl Drops {
    /// Waits for the drop; returns the thread.
    pub(crate) fn wait(&self) -> ThreadId {
        self.0.recv().expect("it is dropped")
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.0.try_recv().is_ok()
    }
}

/// A closure for a call that waits until the test opens it.
pub(crate) struct Gate {
    begun: Receiver<()>,
    open: mpsc::Sender<()>,
}

impl Gate {
    /// Makes a gate, and the closure that waits at it.
    pub(crate) fn new() -> (Self, impl FnOnce() + Send + 'static) {
        let (begins, begun) = unbounded();
        let (open, opened) = mpsc::channel();
        let wait = move || {
            let _ = begins.send(());
            opened.recv_timeout(LONG).expect("the gate opens");
        };
        (Gate { begun, open }, wait)
    }

    /// Waits until the closure waits.
    pub(crate) fn begun(&self) {
        self.begun.recv().expect("the call begins");
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.try_recv().is_ok()
    }

    pub(crate) fn open(&self) {
        self.open.send(()).expect("the closure waits");
    }
}
