//! The fibers without which a server cannot serve: those that accept, and the overseer. When one of
//! them ends, for any reason, the server stops, because `serve` returns only after all of them have
//! ended.

use std::{
    any::Any,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use ramie::fiber::ScopedJoinHandle;

use super::connections::Connections;

/// A needed fiber that was spawned with [`closure`].
pub(super) type Spawned<'scope, T> = io::Result<ScopedJoinHandle<'scope, thread::Result<T>>>;

/// The closure of a needed fiber that runs `f`. It catches the panics of `f`, so that [`join`] can
/// tell them from a fiber that did not run.
pub(super) fn closure<'f, T>(
    connections: &'f Connections,
    f: impl FnOnce() -> T + 'f,
) -> impl FnOnce() -> thread::Result<T> + 'f {
    // If there is no memory for the fiber, the runtime drops the closure with this.
    let stop = StopAtEnd(connections);
    move || {
        let _stop = stop;
        catch_unwind(AssertUnwindSafe(f))
    }
}

/// Waits until a needed fiber has ended. Returns its value, or the payload of its panic.
///
/// # Errors
/// `OutOfMemory` if there was no memory for the fiber.
pub(super) fn join<T>(fiber: Spawned<'_, T>) -> thread::Result<io::Result<T>> {
    match fiber.map(ScopedJoinHandle::join) {
        Ok(Ok(outcome)) => outcome.map(Ok),
        Ok(Err(payload)) => Ok(Err(no_memory(text_of(&*payload)))),
        // In the profile of threads, this is the error of the system.
        Err(error) => Ok(Err(no_memory(error))),
    }
}

fn no_memory(why: impl fmt::Display) -> io::Error {
    let text = format!("there is no memory for a fiber that the server needs: {why}");
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

/// The text by which the runtime says why a fiber did not run.
fn text_of(payload: &dyn Any) -> &str {
    payload.downcast_ref::<String>().map_or("it cannot start", String::as_str)
}

/// Stops a server at the end of a fiber that it needs.
struct StopAtEnd<'a>(&'a Connections);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
