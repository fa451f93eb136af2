//! Park and unpark, and the wait word below them.

use loom::thread;

use super::{Watched, check};
use crate::core::{
    primitive::{Arc, AtomicU64, Ordering},
    strand::{FiberId, Wake, WakeRef},
    time::Deadline,
    wait::park::{self, WaitKind, WaitRecord},
    worker,
};

static WAIT: WaitKind = WaitKind::new("a model");

fn park_now() {
    let worker = worker::current();
    let record = WaitRecord::new(&WAIT);
    if let Ok(Some(prepared)) = park::prepare_park(&worker, &record) {
        prepared.suspend();
    }
}

fn me() -> FiberId {
    worker::current().current_header().id()
}

/// Whether the token comes before or after the park: the park ends, and sees earlier writes.
pub(crate) fn an_unpark_ends_one_park() {
    check(|| {
        let (target, watched) = (me(), Watched::new());
        let unparking = thread::spawn({
            let watched = Arc::clone(&watched);
            move || {
                watched.add();
                worker::unpark(target);
            }
        });
        park_now();
        watched.add();
        unparking.join().unwrap();
    });
}

/// The second of two unparks may find the token there; writes before it are visible nevertheless.
pub(crate) fn a_token_passes_on_what_each_unpark_brings() {
    check(|| {
        let (target, watched) = (me(), Watched::new());
        let told = Arc::new(AtomicU64::new(0));
        let unparking = thread::spawn({
            let (watched, told) = (Arc::clone(&watched), Arc::clone(&told));
            move || {
                worker::unpark(target);
                watched.add();
                told.store(1, Ordering::Relaxed);
                worker::unpark(target);
            }
        });
        // Relaxed, because the token must make the writes visible.
        while told.load(Ordering::Relaxed) == 0 {
            park_now();
        }
        unparking.join().unwrap();
    });
}

/// A spawner knows the id before the strand starts and gets its stack. If the spawner ends the
/// strand's park, only the wait word has made the stack visible to it.
pub(crate) fn an_id_from_before_the_start_reaches_a_parked_strand() {
    check(|| {
        let told = Arc::new(AtomicU64::new(0));
        let parking = thread::spawn({
            let told = Arc::clone(&told);
            move || {
                let (worker, header) = (worker::current(), worker::current().current_header());
                told.store(me().as_u64(), Ordering::Release);
                header.stack.set(header.stack.get());
                let record = WaitRecord::new(&WAIT).until(soon());
                if let Ok(Some(prepared)) = park::prepare_park(&worker, &record) {
                    prepared.suspend();
                }
            }
        });
        let id = told.load(Ordering::Acquire);
        if id != 0 {
            worker::unpark(FiberId::new(id as u32, (id >> 32) as u32));
        }
        parking.join().unwrap();
    });
}

/// The token ends no wait but a park.
pub(crate) fn an_unpark_ends_no_other_wait() {
    check(|| {
        let target = me();
        let shared = Arc::new(AtomicU64::new(0));
        let ended = Arc::new(AtomicU64::new(0));
        let waking = thread::spawn({
            let (shared, ended) = (Arc::clone(&shared), Arc::clone(&ended));
            move || {
                worker::unpark(target);
                if let Some(wait) = WakeRef::from_bits(shared.load(Ordering::Acquire)) {
                    ended.store(1, Ordering::Relaxed);
                    wait.wake(Wake::Woken);
                }
            }
        });
        let reason = wait_and_tell(&shared, soon());
        let is_ended = ended.load(Ordering::Relaxed) == 1;
        assert!(reason == Wake::TimedOut || is_ended, "a park's token ended another wait");
        park_now();
        waking.join().unwrap();
    });
}

fn wait_and_tell(shared: &AtomicU64, deadline: Deadline) -> Wake {
    let worker = worker::current();
    let record = WaitRecord::new(&WAIT).until(deadline);
    let Ok(prepared) = park::prepare(&worker, &record) else { unreachable!("nothing unwinds") };
    shared.store(prepared.wake_ref().to_bits(), Ordering::Release);
    prepared.suspend()
}

/// A thread that ends the wait that `shared` refers to by then, with this reason. It returns
/// whether it has ended one.
fn waker(shared: &Arc<AtomicU64>, reason: Wake) -> thread::JoinHandle<bool> {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let wait = WakeRef::from_bits(shared.load(Ordering::Acquire));
        wait.is_some_and(|wait| wait.wake(reason))
    })
}

fn soon() -> Deadline {
    Deadline::after(std::time::Duration::from_nanos(1))
}

/// The race to fear: a waker is late by a whole wait. It must not end the next wait.
pub(crate) fn a_stale_reference_ends_nothing() {
    check(|| {
        let shared = Arc::new(AtomicU64::new(0));
        let late = waker(&shared, Wake::Cancelled);
        let first = wait_and_tell(&shared, soon());
        let second = wait_and_tell(&AtomicU64::new(0), soon());
        assert_eq!(second, Wake::TimedOut, "a reference to the first wait ended the second");
        assert_eq!(first == Wake::Cancelled, late.join().unwrap());
    });
}

/// The same, with a park as the next wait.
pub(crate) fn a_stale_reference_ends_no_park() {
    check(|| {
        let shared = Arc::new(AtomicU64::new(0));
        let late = waker(&shared, Wake::Cancelled);
        let first = wait_and_tell(&shared, soon());
        let (worker, record) = (worker::current(), WaitRecord::new(&WAIT).until(soon()));
        let Ok(Some(park)) = park::prepare_park(&worker, &record) else {
            unreachable!("nobody has given a token")
        };
        assert_eq!(park.suspend(), Wake::TimedOut, "a reference to a wait ended a park");
        assert_eq!(first == Wake::Cancelled, late.join().unwrap());
    });
}

/// At most one of several wakers wins, and the strand gets its reason.
pub(crate) fn one_waker_wins() {
    check(|| {
        let shared = Arc::new(AtomicU64::new(0));
        let wakers = [Wake::Woken, Wake::Cancelled].map(|reason| waker(&shared, reason));
        let reason = wait_and_tell(&shared, soon());
        let [woken, cancelled] = wakers.map(|waker| waker.join().unwrap());
        assert_eq!((woken, cancelled), (reason == Wake::Woken, reason == Wake::Cancelled));
    });
}
