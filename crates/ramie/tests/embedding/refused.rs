//! Spawns from outside that fail for want of memory: the closure is dropped where its destructor
//! may use the runtime.

use std::{io, mem};

use ramie::{GuestRuntime, Handle, Runtime, Strands};

use super::common::{Limit, assert_success, child_with, is_child, lift_memory_limit, limit_memory};

/// Its destructor needs the entrance of the runtime for itself, and counts as outside.
struct Ends(Handle);

impl Drop for Ends {
    fn drop(&mut self) {
        assert!(Handle::try_current().is_none(), "dropped as if by the runtime");
        self.0.begin_shutdown(std::time::Duration::MAX);
    }
}

/// More than two chunks of headers, and half of the queue that then has room for more than three.
const BEFORE: usize = 70_000;
/// The headers of a chunk.
const MORE: usize = 32_768;

fn spawns_until_refused(
    test: &str,
    spawn: impl Fn(&GuestRuntime, Box<dyn FnOnce() + Send>) -> io::Result<()>,
) {
    if !is_child() {
        // The second variable is for AddressSanitizer, whose copies of frames take memory, too.
        let copies = ("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
        return assert_success(&child_with("true", test, &[("RAMIE_DRIVER", "poll"), copies]));
    }
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(1).stall_limit(None);
    let guest = builder.build().unwrap().start_guest().unwrap();
    let closure = || -> Box<dyn FnOnce() + Send> {
        let ends = Ends(guest.handle());
        Box::new(move || mem::forget(ends))
    };
    (0..BEFORE).for_each(|_| spawn(&guest, closure()).unwrap());
    let mut more = (0..=MORE).map(|_| closure()).collect::<Vec<_>>().into_iter();
    // A chunk needs 2 MiB.
    limit_memory(1 << 20);
    let refused = more.find_map(|closure| spawn(&guest, closure).err());
    lift_memory_limit();
    let refused = refused.expect("there was memory for all of them");
    assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory, "{refused}");
    assert!(!guest.handle().is_open(), "the destructor has begun the end");
    more.for_each(mem::forget);
    drop(guest);
}

#[test]
fn a_closure_of_a_handle_is_dropped_outside() {
    spawns_until_refused("a_closure_of_a_handle_is_dropped_outside", |guest, closure| {
        guest.handle().spawn(closure).map(drop)
    });
}

#[test]
fn a_closure_for_the_worker_of_a_loop_is_dropped_outside() {
    let test = "a_closure_for_the_worker_of_a_loop_is_dropped_outside";
    spawns_until_refused(test, |guest, closure| guest.spawn_local(closure).map(drop));
}
