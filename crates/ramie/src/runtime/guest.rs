//! A runtime whose worker 0 is driven by another loop of its thread: that of a GUI, of GLib, of
//! another executor.
//!
//! # What runs where
//! Worker 0 runs in [`turn`](GuestRuntime::turn), on the thread that made the runtime, and nowhere
//! else. Between two turns the thread runs code that is outside the runtime. Further workers, if
//! the builder has more than one, run on threads of their own.
//!
//! # Who wakes whom
//! Worker 0 is asleep between two turns, by the protocol of `core/worker/guest.rs`. Whatever wakes
//! it makes the runtime's descriptor readable: a completion, a spawn, the wake-up of a fiber by
//! another thread, a question of a dump; and a timer of the kernel, which is set at the end of each
//! turn to the next time at which a fiber's wait, or the grace period, ends. So a loop that waits
//! for the descriptor alone misses nothing.
//!
//! # The end
//! As in the background; [`turn`](GuestRuntime::turn) returns [`Turned::Ended`] when the loop of a
//! worker would end. The rest happens in [`shutdown`](GuestRuntime::shutdown), or in the drop: the
//! worker abandons what is left, and the other workers are joined.
//! - *A drop during a panic, on a fiber, or while the destructors of thread-locals run* abandons
//!   all fibers at once, because none of them may run: they would see the thread panicking, keep
//!   the other fiber's worker, or refer to thread-locals that are destroyed already.
//! - *A runtime that is forgotten* never runs fibers of its worker 0 again, while its other workers
//!   go on. A strand there may use a thread-local that a fiber of worker 0 has lent, so the runtime
//!   ends with its thread, as by a drop: each thread has a list of its guests. The main thread is
//!   the exception, because the end of the process waits for nobody (`core/loans.rs`).
//! - *In the child of a fork* turns fail, and the drop leaks all of it.
#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    fmt, io,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    panic::Location,
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use ramie_coro::thread_end::{self, HookOf};
use ramie_driver::sys::{self, HandedOut, LoopSet, monotonic_ns};

use super::{
    AbandonedFibers, Handle, Runtime, Strands,
    builder::Config,
    start::prepare_process,
    workforce::{Fibers, OtherWorkers, Workforce, report},
};
use crate::{
    core::{
        panic,
        worker::{self, Installed, RuntimeEnded, RuntimeRef, TurnEnd, Until, Worker, Workers},
    },
    fiber::{Builder, JoinHandle},
    inspect::Inspected,
    stall::WatchedLoop,
};

/// The outcome of [`GuestRuntime::turn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turned {
    /// Fibers can go on. The descriptor is readable.
    Busy,
    /// All fibers wait. The next turn is due when the descriptor is readable, which is after this
    /// time at the latest, if there is one.
    Idle(Option<Duration>),
    /// The runtime has nothing left to run, because its end had begun. Drop it, or call
    /// [`shutdown`](GuestRuntime::shutdown).
    Ended,
}

/// A runtime whose worker 0 another loop drives, turn by turn; made by [`Runtime::start_guest`].
///
/// It stays on its thread. Its [`Handle`]s can be used on any thread.
///
/// Dropping it ends the runtime, as the return of the closure ends [`run`](crate::run()): it runs
/// the fibers until all have ended, or for [`Builder::grace`](super::Builder::grace). During a
/// panic, on a fiber of another runtime, and while the destructors of the thread's thread-locals
/// run, it abandons them at once. One that is forgotten ends so with its thread, unless that is the
/// main thread.
///
/// # Examples
/// ```
/// use std::{os::fd::AsFd, time::Duration};
/// use ramie::{Runtime, Strands, Turned};
///
/// let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
/// let mut guest = builder.build()?.start_guest()?;
/// let fiber = guest.spawn_local(|| {
///     ramie::fiber::sleep(Duration::from_millis(2));
///     "rested"
/// })?;
/// while !fiber.is_finished() {
///     // A GUI would wait for its own events at the same time.
///     wait_until_readable(guest.as_fd());
///     guest.turn(Duration::from_millis(5));
/// }
/// assert_eq!(fiber.join().unwrap(), "rested");
/// # fn wait_until_readable(fd: std::os::fd::BorrowedFd<'_>) {
/// #     ramie::ring::poll(fd, ramie::io::PollFlags::IN).unwrap();
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "dropping it ends the runtime"]
pub struct GuestRuntime {
    guest: Rc<SharedGuest>,
    /// None only at the end.
    descriptor: Option<LoopSet>,
    handle: Handle,
    /// Its fibers belong to this thread.
    not_send: PhantomData<*const ()>,
}

const IS_OPEN: &str = "the descriptor is open until the runtime is dropped";

/// A guest, also in the list of its thread. None: it has ended. Borrowed: it is in a turn.
type SharedGuest = RefCell<Option<Guest>>;

thread_local! {
    /// The guests of this thread that have not ended. It has no destructor, because it is used when
    /// the thread ends; it is empty then.
    static GUESTS: ManuallyDrop<RefCell<Vec<Rc<SharedGuest>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

struct Guest {
    /// INVARIANT: removed before `worker` is dropped, and forgotten only with it.
    watched: Option<WatchedLoop>,
    /// In a box, because the watchdog looks at it.
    worker: Box<Worker>,
    workers: Arc<Workers>,
    others: OtherWorkers,
    fibers: HandedOut<Fibers>,
    config: Config,
    _inspected: Inspected,
}

impl Runtime {
    /// Makes a runtime whose worker 0 runs in turns that the caller gives it, on this thread.
    /// Further workers, if there are more than one, run on threads of their own; with one worker,
    /// all fibers run on this thread.
    ///
    /// # Blocking
    /// Blocks the calling thread until the workers have started.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// As [`start`](Self::start). `InvalidInput`: strands are threads, which no loop could drive.
    ///
    /// # Panics
    /// Inside a runtime. If the function that makes the run-queue policy panics.
    #[track_caller]
    pub fn start_guest(&self) -> io::Result<GuestRuntime> {
        check_outside();
        if self.config.strands == Strands::Threads {
            let text = "a loop cannot drive strands that are threads; choose Strands::Fibers";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        prepare_process();
        let inspected = self.config.inspect.begin();
        let Workforce { workers, first, watching, others } = Workforce::start(&self.config, true)?;
        let mut own = Box::new(first);
        worker::become_guest(&mut own);
        let driver = own.io.with_open_driver(ramie_driver::Driver::pollable);
        let opened = driver.expect("a worker of a runtime has a driver").and_then(LoopSet::new);
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(error) => {
                workers.stop();
                others.dismiss();
                return Err(error);
            }
        };
        // SAFETY: the worker is in a box, and the entry is removed before the box is dropped
        // (invariant of `Guest::watched`).
        let watched = unsafe { watching.watch(&own) };
        let handle = Handle::of(RuntimeRef::Workers(Arc::clone(&workers)));
        let guest = Guest {
            watched,
            worker: own,
            workers,
            others,
            fibers: HandedOut::new(),
            config: self.config.clone(),
            _inspected: inspected,
        };
        Ok(GuestRuntime {
            guest: keep(guest),
            descriptor: Some(descriptor),
            handle,
            not_send: PhantomData,
        })
    }
}

/// Enters a guest into the list of its thread.
fn keep(guest: Guest) -> Rc<SharedGuest> {
    let place = Rc::new(RefCell::new(Some(guest)));
    GUESTS.with(|guests| guests.borrow_mut().push(Rc::clone(&place)));
    thread_end::set_hook(HookOf::Guests, end_forgotten);
    thread_end::note_start();
    place
}

/// Takes a guest that ends off the list.
fn take(place: &Rc<SharedGuest>) -> Option<Guest> {
    GUESTS.with(|guests| {
        let mut guests = guests.borrow_mut();
        guests.retain(|other| !Rc::ptr_eq(other, place));
        if guests.is_empty() {
            *guests = Vec::new();
        }
    });
    place.borrow_mut().take()
}

/// Ends the guests of a thread whose thread-locals are about to be destroyed.
fn end_forgotten() {
    if worker::ends_the_process() {
        return;
    }
    while let Some(place) = GUESTS.with(|guests| guests.borrow_mut().pop()) {
        // None is in a turn, because no fiber runs.
        if let Some(guest) = place.take() {
            guest.end(Some(Duration::ZERO));
        }
    }
}

#[track_caller]
fn check_outside() {
    assert!(
        !worker::is_inside_run(),
        "a GuestRuntime was made or used on a fiber; use it only in the loop of its thread"
    );
}

impl GuestRuntime {
    /// Returns a handle of the runtime, which does not keep the runtime from ending.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs fibers of worker 0 until all of them wait, or for about `max`: when that time is over,
    /// the turn ends at the next switch. Each turn runs at least one fiber that can run, so
    /// [`Duration::ZERO`] gives the shortest one.
    ///
    /// Call it whenever the descriptor is readable. It is readable at first.
    ///
    /// # Blocking
    /// Never waits. It takes as long as the fibers run.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// Inside a runtime; in the child of a fork; in a destructor that runs during a panic.
    #[track_caller]
    pub fn turn(&mut self, max: Duration) -> Turned {
        check_outside();
        assert!(
            !thread::panicking(),
            "turn was called in a destructor that runs during a panic, where fibers cannot suspend"
        );
        assert!(
            !self.handle.is_forked(),
            "turn was called in the child of a fork; its runtime belongs to the parent"
        );
        if thread_end::has_begun() {
            return Turned::Ended;
        }
        let mut shared = self.guest.borrow_mut();
        let Some(guest) = &mut *shared else { return Turned::Ended };
        let (turned, next) = guest.turn(max);
        if let Err(error) = self.descriptor.as_mut().expect(IS_OPEN).arm(next) {
            sys::fatal(&format!("a timer cannot be set ({error}). Aborting."));
        }
        turned
    }

    /// Spawns a fiber on worker 0, as [`fiber::spawn_local`](crate::fiber::spawn_local) does: its
    /// closure and its value may be `!Send`, such as a reference-counted widget of a GUI.
    ///
    /// A join of the fiber on this thread, before the fiber has ended, would wait for ever, because
    /// no turn is given meanwhile. Await the handle on the executor of the loop, or ask
    /// [`is_finished`](JoinHandle::is_finished) after a turn.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// As [`fiber::Builder::spawn_local`](crate::fiber::Builder::spawn_local); [`RuntimeEnded`]:
    /// the end of the runtime has begun.
    ///
    /// # Panics
    /// Inside a runtime.
    #[track_caller]
    pub fn spawn_local<F, T>(&self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        check_outside();
        let shared = self.guest.borrow();
        let guest = shared.as_ref().ok_or(RuntimeEnded::ENDED)?;
        Builder::new().spawn_between_turns(&guest.worker, f, Location::caller())
    }

    /// Ends the runtime as [`Handle::shutdown`] does: runs the fibers on this thread until all have
    /// ended, or for `timeout`.
    ///
    /// # Blocking
    /// Blocks the calling thread, which is a worker meanwhile.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// Inside a runtime. If the function of [`on_abandoned`](super::Builder::on_abandoned) panics:
    /// with its panic.
    #[track_caller]
    pub fn shutdown(mut self, timeout: Duration) -> AbandonedFibers {
        check_outside();
        let grace = (timeout != Duration::MAX).then_some(timeout);
        match self.take() {
            Some(guest) => guest.end(grace),
            None => AbandonedFibers::default(),
        }
    }

    /// Takes the guest out, to end it.
    fn take(&mut self) -> Option<Guest> {
        // It keeps the ring open, for whose end the drop of the worker may wait.
        drop(self.descriptor.take());
        take(&self.guest)
    }
}

impl Guest {
    /// Runs fibers; returns when the next turn is due, too.
    fn turn(&mut self, max: Duration) -> (Turned, Option<Duration>) {
        let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = monotonic_ns().saturating_add(max);
        let _installed = Installed::new(&self.worker);
        match worker::turn(&self.worker, end_ns) {
            TurnEnd::Finished => (Turned::Ended, Some(Duration::ZERO)),
            TurnEnd::Busy => (Turned::Busy, Some(Duration::ZERO)),
            TurnEnd::Idle(next) => (Turned::Idle(next), next),
        }
    }

    /// Ends the runtime, and returns what was abandoned.
    fn end(self, grace: Option<Duration>) -> AbandonedFibers {
        if self.workers.entrance.is_forked() {
            // The driver, the threads and the watchdog are the parent's.
            mem::forget(self);
            return AbandonedFibers::default();
        }
        // The end waits from now on for what this thread runs.
        self.workers.entrance.roster.enter();
        // In a fiber of another worker of this thread no loop may run, as in a panic.
        let may_run = !thread::panicking() && !thread_end::has_begun() && !worker::is_inside_run();
        self.workers.close(if may_run { grace } else { Some(Duration::ZERO) });
        let Guest { watched, worker: own, workers, others, fibers, config, _inspected } = self;
        {
            let _installed = Installed::new(&own);
            worker::begin_turn(&own);
            if may_run {
                own.run(Until::Finished);
            }
        }
        drop(watched);
        if !thread_end::has_begun() {
            own.io.with_open_driver(ramie_driver::Driver::note_thread_goes_on);
        }
        let abandoned = own.abandon_all();
        let abandoned = others.end(&workers, own, fibers, abandoned);
        // A panic in a destructor of a thread-local would end the process.
        match thread::panicking() || thread_end::has_begun() {
            true => drop(panic::call_quietly(|| report(&config, &abandoned))),
            false => report(&config, &abandoned),
        }
        abandoned
    }
}

impl AsFd for GuestRuntime {
    /// Returns the descriptor that is readable when a turn is due. Wait for it by poll(2) or
    /// epoll(7); do not read it. It stays open as long as this value lives.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect(IS_OPEN).as_fd()
    }
}

impl AsRawFd for GuestRuntime {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for GuestRuntime {
    fn drop(&mut self) {
        if let Some(guest) = self.take() {
            let grace = guest.config.grace;
            guest.end(grace);
        }
    }
}

impl fmt::Debug for GuestRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestRuntime").field("handle", &self.handle).finish_non_exhaustive()
    }
}
