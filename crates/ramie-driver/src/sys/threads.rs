//! The threads of the process: which there are, and which belong to the runtime.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, Mode, OFlags, open};

use super::{read_small, thread_id};

/// The ids of the runtime's threads.
static RUNTIME_THREADS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

fn runtime_threads() -> MutexGuard<'static, Vec<i32>> {
    RUNTIME_THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the calling thread, for as long as this lives, as one that runs no code of the program, or
/// only for a strand that waits for it.
#[derive(Debug)]
pub struct RuntimeThread(i32);

impl RuntimeThread {
    /// Marks the calling thread.
    #[must_use]
    pub fn enter() -> RuntimeThread {
        let id = thread_id();
        runtime_threads().push(id);
        RuntimeThread(id)
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        runtime_threads().retain(|id| *id != self.0);
    }
}

/// Returns whether a thread is marked by a [`RuntimeThread`].
pub fn is_runtime_thread(id: i32) -> bool {
    runtime_threads().contains(&id)
}

/// Returns whether a thread is one of those that the kernel starts for rings.
pub fn is_ring_thread(id: i32) -> bool {
    let name = read_small(&format!("/proc/self/task/{id}/comm")).unwrap_or_default();
    name.starts_with("iou-wrk-") || name.starts_with("iou-sqp-")
}

/// Returns the ids of all threads of the process; none if /proc cannot be read.
pub fn thread_ids() -> Option<Vec<i32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open("/proc/self/task", flags, Mode::empty()).ok()?;
    let mut ids = Vec::new();
    for entry in Dir::new(folder).ok()? {
        // Dots stand for the folders themselves.
        ids.extend(entry.ok()?.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()));
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_the_process_are_listed() {
        let id = thread_id();
        assert!(thread_ids().unwrap().contains(&id));
        assert!(!is_ring_thread(id));
        assert!(!thread_ids().unwrap().contains(&i32::MAX));
    }

    #[test]
    fn a_thread_of_the_runtime_is_marked_for_a_time() {
        let mark = RuntimeThread::enter();
        assert!(is_runtime_thread(thread_id()));
        drop(mark);
        assert!(!is_runtime_thread(thread_id()));
    }
}
