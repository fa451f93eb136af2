//! The builder that spawns fibers with options.
#![allow(unsafe_code)]

use std::{io, marker::PhantomData, mem, panic::Location, ptr, thread};

use ramie_driver::sys::{HandedOut, Lent};

use super::{JoinHandle, Scope, ScopedJoinHandle, join::RawHandle};
use crate::core::{
    loans::Loan,
    strand::{self, ScopeData, SpawnOptions, StrandHeader, end_unstarted, run_thread_to_end},
    worker::{self, CountedThread, Worker},
};

// Same name as `ramie::Builder`: the twin of `std::thread::Builder`.
/// Collects the options of a fiber, then spawns it; twin of [`std::thread::Builder`].
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let builder = ramie::fiber::Builder::new().name("reader".into()).stack_size(1 << 20);
///     assert_eq!(builder.spawn(|| 5).unwrap().join().unwrap(), 5);
/// });
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until one of its spawn methods is called"]
pub struct Builder {
    pub(super) options: SpawnOptions,
    pub(super) place: Place,
    not_public: PhantomData<()>,
}

/// Selects the worker that starts a fiber. The fiber stays there, because a fiber that has started
/// does not move.
///
/// # How fibers spread
/// With [`Any`](Place::Any), workers that have nothing to do steal closures that have not started,
/// several at a time and in the order in which they were spawned. Because many fibers start to wait
/// as soon as they run, and wait for long, workers also compare their numbers of fibers: if many
/// fibers that live long are spawned in a row, each idle worker gets about the same number of them.
/// A worker that has more fibers than another leaves that worker's closures alone, for a
/// millisecond at most; it steals closures that end soon at once. So no closure waits long behind a
/// fiber that does not suspend. A worker that always has something to run takes closures of another
/// only if that one has far more fibers.
///
/// Two fibers that are spawned one after the other usually start on the same worker, but need not.
/// If two fibers must share a worker, let one spawn the other by
/// [`spawn_local`](super::spawn_local).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The worker that spawns the fiber, or another one that takes the closure.
    #[default]
    Any,
    /// The worker of this index; the worker that called [`run`](crate::run()) has index 0.
    Worker(usize),
    /// The worker that has the fewest fibers now; on a tie with it, the worker that spawns the
    /// fiber.
    LeastLoaded,
}

/// The workers on which a closure may start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    AnyWorker,
    ThisWorker,
}

/// A closure, with its borrows, that was lent to a run queue.
pub(super) enum Closure {}

impl Lent for Closure {
    const WHAT: &'static str = "it queued a closure";
}

impl Builder {
    /// Makes a builder without a name and with the runtime's stack size.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the fiber, for panic messages, stack overflow reports and dumps. If the name contains
    /// a NUL byte, the spawn panics, as std's does.
    pub fn name(mut self, name: String) -> Self {
        self.options.name = Some(name);
        self
    }

    /// Sets the least number of usable bytes of the fiber's stack, from 32 KiB to 1 GiB; 0 selects
    /// the runtime's default. Any other size than the default is rounded up to a power of two, so
    /// that stacks are pooled in few classes. [`spawn`](Self::spawn) refuses a size out of range.
    ///
    /// A large stack costs address space, not memory, because stacks are committed lazily.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.options.stack_size = bytes;
        self
    }

    /// Sets the priority for a run-queue policy such as
    /// [`policy::Priority`](crate::policy::Priority); 0 by default. Workers without a policy ignore
    /// the priority, and run fibers first in, first out.
    pub fn priority(mut self, priority: i8) -> Self {
        self.options.priority = priority;
        self
    }

    /// Chooses the worker. `spawn_local` ignores this choice, because its closure cannot leave its
    /// worker.
    ///
    /// Outside `run` and with [`Strands::Threads`](crate::Strands) there are no workers to choose
    /// from, and the operating system places the new thread.
    ///
    /// # Examples
    /// ```
    /// use ramie::fiber::{self, Builder, Place};
    ///
    /// let runtime = ramie::Runtime::builder().strands(ramie::Strands::Fibers).workers(2).build()?;
    /// runtime.run(|| {
    ///     let there = Builder::new().on(Place::Worker(1)).spawn(fiber::worker)?;
    ///     assert_eq!(there.join().unwrap(), Some(1));
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Spawns a fiber as [`spawn`](super::spawn) does.
    ///
    /// # Errors
    /// `InvalidInput`: the stack size is out of range, or no worker has the requested index.
    /// `OutOfMemory`: there is no memory for one more strand. Outside `run`: the system refuses one
    /// more thread. In each case the closure is dropped.
    ///
    /// # Panics
    /// If the name contains a NUL byte.
    #[inline]
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: closure and value own all they refer to.
        let raw =
            unsafe { self.spawn_raw(f, ptr::null(), Placement::AnyWorker, Location::caller()) }?;
        Ok(JoinHandle::new(raw))
    }

    /// Spawns a fiber whose closure may borrow, without a check by the compiler.
    ///
    /// # Safety
    /// Everything that the closure and its value borrow must outlive the strand's end, and the join
    /// or drop of the handle. [`Scope::spawn`] guarantees that by itself.
    ///
    /// # Errors
    /// As for [`Builder::spawn`].
    #[track_caller]
    pub unsafe fn spawn_unchecked<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: the caller's promise.
        let raw =
            unsafe { self.spawn_raw(f, ptr::null(), Placement::AnyWorker, Location::caller()) }?;
        Ok(JoinHandle::new(raw))
    }

    /// Spawns a fiber as [`spawn_local`](super::spawn_local) does.
    ///
    /// # Errors
    /// `InvalidInput`: the stack size is out of range. `OutOfMemory`: there is no memory for one
    /// more strand. In each case the closure is dropped.
    ///
    /// # Panics
    /// If the name contains a NUL byte.
    #[inline]
    #[track_caller]
    pub fn spawn_local<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        // SAFETY: closure and value own all they refer to.
        let raw =
            unsafe { self.spawn_raw(f, ptr::null(), Placement::ThisWorker, Location::caller()) }?;
        Ok(JoinHandle::new(raw))
    }

    /// Spawns a fiber of `scope` as [`Scope::spawn`] does.
    ///
    /// # Errors
    /// As for [`Builder::spawn`].
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_scoped_at(Location::caller(), scope, f)
    }

    /// As [`Builder::spawn_scoped`], for the caller of a function that spawns for it: dumps name
    /// `spawned_at`.
    #[track_caller]
    pub(crate) fn spawn_scoped_at<'scope, F, T>(
        self,
        spawned_at: &'static Location<'static>,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let data = scope.data();
        // SAFETY: the scope waits for the strand's end, and values borrowed for `'scope` outlive
        // the scope; the outcome is taken or dropped within `'scope` (join.rs).
        let raw = unsafe { self.spawn_counted(f, data, Placement::AnyWorker, spawned_at) }?;
        Ok(ScopedJoinHandle::new(raw, data))
    }

    /// Spawns a fiber of `scope` as [`Scope::spawn_local`] does.
    ///
    /// # Errors
    /// As for [`Builder::spawn_local`].
    ///
    /// # Panics
    /// As [`Scope::spawn_local`].
    #[track_caller]
    pub fn spawn_scoped_local<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        let data = scope.data();
        // SAFETY: as for `spawn_scoped`.
        let raw =
            unsafe { self.spawn_counted(f, data, Placement::ThisWorker, Location::caller()) }?;
        Ok(ScopedJoinHandle::new(raw, data))
    }

    #[track_caller]
    unsafe fn spawn_counted<F, T>(
        self,
        f: F,
        scope: &ScopeData,
        placement: Placement,
        spawned_at: &'static Location<'static>,
    ) -> io::Result<RawHandle>
    where
        F: FnOnce() -> T,
    {
        assert!(
            placement == Placement::AnyWorker || scope.is_served_by(&worker::current()),
            "Scope::spawn_local was called on a thread that does not wait for the scope; call it \
             where the scope was made, or use Scope::spawn"
        );
        // Subtracted again on an error and on a panic, because the scope would otherwise wait for a
        // strand that does not exist.
        struct Counted<'a>(&'a ScopeData);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.child_ended();
            }
        }
        scope.child_added();
        let counted = Counted(scope);
        // SAFETY: the caller's promise.
        let handle = unsafe { self.spawn_raw(f, scope, placement, spawned_at) }?;
        mem::forget(counted);
        Ok(handle)
    }

    /// Spawns a strand whose closure and value may borrow.
    ///
    /// # Safety
    /// Everything that they borrow outlives the strand's end, and the moment when its outcome is
    /// taken. A closure for `AnyWorker` is `Send`.
    #[inline]
    #[track_caller]
    unsafe fn spawn_raw<F, T>(
        self,
        f: F,
        scope: *const ScopeData,
        placement: Placement,
        spawned_at: &'static Location<'static>,
    ) -> io::Result<RawHandle>
    where
        F: FnOnce() -> T,
    {
        self.check()?;
        let worker = worker::current();
        let find_place =
            |asked| worker.membership.as_ref().map(|member| member.find_place(asked)).transpose();
        let place = match (placement, self.place) {
            (Placement::ThisWorker, _) | (_, Place::Any) => None,
            (_, Place::Worker(index)) => find_place(Some(index))?,
            (_, Place::LeastLoaded) => find_place(None)?,
        };
        let is_thread = placement == Placement::AnyWorker && worker.membership.is_none();
        let header = worker.headers.take(is_thread)?;
        header.note_spawn(spawned_at);
        // SAFETY: a fresh header; the rest is the caller's promise.
        unsafe { strand::install(header, f) };
        if is_thread {
            return self.start_thread(&worker, header, scope);
        }
        // From here on the closure may run, so the caller must not treat it as one that never
        // starts.
        let queued = HandedOut::<Closure>::new();
        let is_placed = place.is_some();
        header.attributes.install(scope, SpawnOptions { is_placed, ..self.options });
        // The handle is made before the closure may start and end, because the handle keeps the
        // header.
        let handle = RawHandle::new(header);
        match place {
            None => worker.enqueue_fresh(header, placement == Placement::ThisWorker),
            Some(index) => worker.enqueue_placed(header, index),
        }
        queued.settle();
        Ok(handle)
    }

    /// Checks the options.
    #[inline]
    #[track_caller]
    pub(super) fn check(&self) -> io::Result<()> {
        if self.options.stack_size != 0 {
            ramie_coro::StackSize::new(self.options.stack_size)?;
        }
        if let Some(name) = &self.options.name {
            check_name(name);
        }
        Ok(())
    }

    #[cold]
    fn start_thread(
        self,
        worker: &Worker,
        header: &'static StrandHeader,
        scope: *const ScopeData,
    ) -> io::Result<RawHandle> {
        let builder = self.thread_builder();
        header.attributes.install(scope, self.options);
        // If the thread cannot be made, this is dropped with the closure.
        let counted = worker.thread_strands.as_ref().map(|threads| threads.add(header));
        // SAFETY: null, or the scope, to which the caller has a reference.
        let loan = unsafe { scope.as_ref() }.map(|scope| scope.lender().lend());
        start_counted_thread(builder, worker, header, counted, loan)
    }

    /// Describes the thread of a strand with these options.
    pub(super) fn thread_builder(&self) -> thread::Builder {
        let mut builder = thread::Builder::new();
        if let Some(name) = &self.options.name {
            builder = builder.name(name.clone());
        }
        if self.options.stack_size != 0 {
            builder = builder.stack_size(self.options.stack_size);
        }
        builder
    }
}

/// Starts the thread of a strand whose attributes are installed; `counted` is its entry in its
/// runtime, and `loan` stands for its borrows if it belongs to a scope.
pub(super) fn start_counted_thread(
    builder: thread::Builder,
    worker: &Worker,
    header: &'static StrandHeader,
    counted: Option<CountedThread>,
    loan: Option<Loan>,
) -> io::Result<RawHandle> {
    worker::note_spawn(worker, header);
    let handle = RawHandle::new(header);
    let started = builder.spawn(move || {
        worker::on_thread_strand(header, counted, loan, |worker| run_thread_to_end(worker, header))
    });
    match started {
        Ok(_) => Ok(handle),
        Err(error) => {
            header.attributes.forget_scope();
            // SAFETY: the thread that would have started it was not made.
            unsafe { end_unstarted(worker, header, Box::new("no thread")) };
            Err(error)
        }
    }
}

#[cold]
#[track_caller]
fn check_name(name: &str) {
    assert!(!name.contains('\0'), "the name of a fiber contains a NUL byte; leave it out");
}
