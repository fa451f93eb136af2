//! The fibers without which a server cannot serve. When one of them ends, for any reason, the
//! server stops, because it waits for the others.

use std::{
    io,
    panic::resume_unwind,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::connections::Connections;

/// The fibers that one server needs.
pub(super) struct Needed<'a> {
    connections: &'a Connections,
    /// Set if there was no memory for one of the fibers.
    lacks_memory: AtomicBool,
}

impl<'a> Needed<'a> {
    pub(super) fn new(connections: &'a Connections) -> Self {
        Needed { connections, lacks_memory: AtomicBool::new(false) }
    }

    /// The closure of a fiber that runs `f`.
    pub(super) fn fiber<'f, T>(&'f self, f: impl FnOnce() -> T + 'f) -> impl FnOnce() -> T + 'f {
        let mut life = FiberLife { needed: self, has_begun: false };
        move || {
            life.begin();
            f()
        }
    }

    /// The value of a fiber that was joined.
    ///
    /// # Errors
    /// `OutOfMemory` if there was no memory for one of the fibers.
    ///
    /// # Panics
    /// If the fiber has panicked.
    pub(super) fn value<T>(&self, joined: thread::Result<T>) -> io::Result<T> {
        joined.or_else(|panic| {
            // The payload is then a text of the runtime.
            if self.lacks_memory.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            resume_unwind(panic)
        })
    }
}

/// The life of a fiber. If there is no memory for the fiber, the runtime drops the closure with
/// this before it has begun.
struct FiberLife<'a> {
    needed: &'a Needed<'a>,
    has_begun: bool,
}

impl FiberLife<'_> {
    fn begin(&mut self) {
        self.has_begun = true;
    }
}

impl Drop for FiberLife<'_> {
    fn drop(&mut self) {
        if !self.has_begun {
            self.needed.lacks_memory.store(true, Ordering::Relaxed);
        }
        self.needed.connections.stop();
    }
}
