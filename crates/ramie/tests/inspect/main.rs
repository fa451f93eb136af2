//! Dumps: each kind of wait, the states of strands, strands on threads, the forms of a dump; and
//! summaries.

#[path = "../common/mod.rs"]
mod common;

mod backtraces;
mod dump;
mod flight;
mod joiners;
mod million;
mod quit;
mod recorded;
mod recordings;
mod served;
mod summary;
mod traced;
mod traced_requests;
mod waits;

use std::{
    cell::RefCell,
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use ramie::{
    fiber,
    inspect::{self, Dump, StrandDump, StrandState},
};

/// A name that no other strand of this process has.
fn unique(noun: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{noun} {}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether this process has a thread of this name. One that was joined may still be there for a
/// moment.
fn has_thread(name: &str) -> bool {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut names = tasks.map(|task| fs::read_to_string(task.path().join("comm")));
    names.any(|found| found.is_ok_and(|found| found.trim() == name))
}

/// Spawns a strand with a name.
fn spawned_in<'a>(
    s: &'a fiber::Scope<'a, '_>,
    name: &str,
    f: impl FnOnce() + Send + 'a,
) -> fiber::ScopedJoinHandle<'a, ()> {
    fiber::Builder::new().name(name.to_owned()).spawn_scoped(s, f).expect("a fiber")
}

/// Finds a strand by its name.
fn named<'a>(dump: &'a Dump, name: &str) -> Option<&'a StrandDump> {
    dump.strands.iter().find(|strand| strand.name.as_deref() == Some(name))
}

/// Dumps until the strand of this name waits, and returns it.
fn waiting(name: &str) -> StrandDump {
    let found = RefCell::new(None);
    common::wait_until(|| {
        let dump = inspect::dump();
        let strand = named(&dump, name).filter(|strand| strand.state == StrandState::Waiting);
        found.replace(strand.cloned());
        found.borrow().is_some()
    });
    found.take().expect("found by the loop above")
}
