//! Fibers that block their thread in a call in which Ramie's drivers wait, too.

use io_uring::{IoUring, types};
use ramie::{Driver, StallCause, io::Read};

use crate::{
    common::{drivers, has_ring, skipped},
    reports::{FIFTY, stall_in, stall_of},
};

/// The advice for calls that may be Ramie's own.
const ADVICE: &str = "let destructors not wait; otherwise make the call on another thread";

#[test]
fn a_ring_of_the_program_is_named() {
    if !has_ring() {
        return;
    }
    if !IoUring::new(2).unwrap().params().is_feature_ext_arg() {
        return skipped("this kernel has no waits for completions with a time limit");
    }
    let stall = stall_of(1, || {
        let ring = IoUring::new(2).unwrap();
        let limit = types::Timespec::from(6 * FIFTY);
        let args = types::SubmitArgs::new().timespec(&limit);
        let error = ring.submitter().submit_with_args(1, &args).expect_err("the ring has no op");
        assert_eq!(error.raw_os_error(), Some(libc::ETIME));
    });
    assert_eq!(*stall.cause(), StallCause::SystemCall("io_uring_enter".to_owned()));
    assert!(stall.to_string().contains(ADVICE), "{stall}");
}

/// A destructor reads from a pipe in which nothing is. The fiber cannot suspend meanwhile, so the
/// driver waits on its behalf, for 100 ms at most.
#[test]
fn a_wait_in_place_is_named() {
    struct Reads;
    impl Drop for Reads {
        fn drop(&mut self) {
            let (mut reader, _writer) = ramie::io::pipe().unwrap();
            assert!(reader.read(&mut [0]).is_err(), "nothing was written");
        }
    }
    for driver in drivers() {
        let unwinds = || {
            let reads_and_unwinds = || {
                let _reads = Reads;
                // Without the panic hook, which would take its time.
                std::panic::resume_unwind(Box::new(()))
            };
            drop(std::panic::catch_unwind(reads_and_unwinds));
        };
        let stall = stall_in(|builder| builder.workers(1).driver(driver), unwinds);
        let call = if driver == Driver::Uring { "io_uring_enter" } else { "epoll_pwait" };
        assert_eq!(*stall.cause(), StallCause::SystemCall(call.to_owned()));
        assert!(stall.to_string().contains(ADVICE), "{stall}");
    }
}
