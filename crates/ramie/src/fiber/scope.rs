//! Scopes: strands that may borrow, because the scope waits for them on the lender's own stack.
//!
//! # Why this is sound
//! A strand may borrow what lives longer than the call to [`scope`]. The call returns, by value or
//! by panic, only after every strand of the scope has ended; it waits on the very stack that owns
//! the lent values; and a suspended stack is never freed (its fiber may be given up, then the stack
//! leaks with all that is on it). There is no handle whose `mem::forget` could cut the wait short.
//!
//! # The count
//! `strands` counts the live strands and the parent itself. The parent takes itself off when it
//! begins to wait; whoever takes off the last one finishes `done`, for which the parent waits. A
//! strand that is not the last touches the scope no more after its decrement; the last one may,
//! because the parent leaves only when `done` is finished.
//!
//! A strand that is given up stays on the count, since it may have lent on what it borrowed. As a
//! rule its parent is given up, too. Where it is not (the scope was opened outside of `run`), it is
//! told, and the process ends: the parent could neither leave nor ever go on.

use std::{fmt, marker::PhantomData, panic::resume_unwind, sync::Mutex};

use ramie_driver::sys::{HandedOut, Lent};

use super::{Builder, ScopedJoinHandle};
use crate::{
    completion::Completion,
    inherited::Inherited,
    panic::{NoValue, Raised, try_install_hook},
    park::{WaitKind, WaitRecord, abort_wait_while_unwinding},
    primitive::{AtomicBool, AtomicUsize, Ordering},
    worker::{self, Shared},
};

static SCOPE_END: WaitKind = WaitKind::new("the strands of a scope");

/// What a scope says of a strand whose panic nobody took.
struct Sentence {
    text: String,
    /// The panic hook has told of the panic, so the scope's own is raised in silence. Of a strand
    /// that no hook has told of, the scope's panic is the first that is heard.
    is_told: bool,
}

/// The part of a scope that its strands refer to.
pub(crate) struct ScopeData {
    strands: AtomicUsize,
    done: Completion,
    /// A strand was given up: the count will never come down.
    is_lost: AtomicBool,
    panicked: Mutex<Option<Sentence>>,
    /// The worker of the strand that waits for the scope.
    owner: &'static Shared,
    /// What was set where the scope was opened.
    inherited: Option<Inherited>,
}

/// Lent to the strands of a scope: the scope, and what they borrow.
enum Children {}

impl Lent for Children {
    const WHAT: &'static str = "strands of a scope borrowed from it";
}

impl ScopeData {
    #[track_caller]
    fn new() -> Self {
        let worker = worker::current();
        worker.check_can_wait();
        // Scopes ask what it has marked, also outside of `run`.
        try_install_hook();
        ScopeData {
            strands: AtomicUsize::new(1),
            done: Completion::new(),
            is_lost: AtomicBool::new(false),
            panicked: Mutex::new(None),
            owner: worker.shared(),
            inherited: Inherited::snapshot(),
        }
    }

    pub(super) fn inherited(&self) -> Option<&Inherited> {
        self.inherited.as_ref()
    }

    pub(super) fn child_added(&self) {
        // Relaxed: the spawn itself hands the strand over.
        self.strands.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether fibers that stay on `worker` are sure to run while the scope waits.
    pub(super) fn is_served_by(&self, worker: &worker::Worker) -> bool {
        worker.team().is_some() || std::ptr::eq(worker.shared(), self.owner)
    }

    /// Remembers the first strand that has no value where nobody took what it has instead.
    pub(super) fn note_panic(&self, label: String, (why, message): (NoValue, Option<String>)) {
        let is_told = why == NoValue::Panicked;
        let text = match message {
            Some(reason) if why == NoValue::NotRun => reason,
            Some(message) => format!("{label}: {message}"),
            None => label,
        };
        let text = format!("a strand of the scope panicked: {text}");
        let mut panicked = self.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        panicked.get_or_insert(Sentence { text, is_told });
    }

    fn take_panic(&self) -> Option<Sentence> {
        self.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Takes a strand that has ended, or was never made, off the count. The scope may be gone when
    /// this returns.
    pub(super) fn child_ended(&self) {
        // AcqRel: what each strand did is visible to the last one, and through it to the parent.
        if self.strands.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.finish().wake();
        }
    }

    /// Tells the parent that a strand was given up. The parent has not left, because that strand
    /// is still on the count.
    pub(super) fn child_lost(&self) {
        // Relaxed: `finish` releases it.
        self.is_lost.store(true, Ordering::Relaxed);
        self.done.finish().wake();
    }

    /// Waits until no strand is left.
    #[track_caller]
    fn wait_for_all(&self) {
        let children = HandedOut::<Children>::new();
        if self.strands.fetch_sub(1, Ordering::AcqRel) == 1 {
            return children.settle();
        }
        let record = WaitRecord::new(&SCOPE_END);
        if self.done.wait(&record).is_err() {
            abort_wait_while_unwinding("a scope with strands that have not ended");
        }
        if self.is_lost.load(Ordering::Relaxed) {
            self.end_without_strands(&record);
        }
        children.settle();
    }

    #[cold]
    fn end_without_strands(&self, record: &WaitRecord) -> ! {
        let is_given_up_too = || {
            let worker = worker::current();
            worker.team().is_some_and(|team| team.is_grace_over())
        };
        if is_given_up_too() {
            // Its own worker is about to give it up, too.
            let _ = Completion::new().wait(record);
        }
        ramie_driver::sys::fatal(
            "a strand of a scope was abandoned at the end of its run, and the scope, which \
             was opened outside of that run, would wait for it for ever. Open the scope inside \
             run, or join the strand before run ends. Aborting.",
        )
    }
}

impl Drop for ScopeData {
    /// A scope that was not closed has its parent on the count, and nobody else; of one that was
    /// closed nobody is. Else strands borrow what is about to go.
    fn drop(&mut self) {
        if self.strands.load(Ordering::Relaxed) > 1 {
            ramie_driver::sys::fatal("a scope was dropped before its strands had ended. Aborting.")
        }
    }
}

/// A region that owns strands; twin of [`std::thread::Scope`]. Made by [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    data: ScopeData,
    // Invariant in both, as in std.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a scope whose strands may borrow all that outlives this call, and waits for them;
/// twin of [`std::thread::scope`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until every strand of the scope has ended.
///
/// # Cancellation
/// Not a cancel point: a scope around it cancels its strands, and so ends the wait.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()), and on a thread for which there is no memory to wait,
/// before `f` runs.
///
/// With the panic of `f`, if it panicked; else, when a strand panicked whose handle was not
/// joined, with a message that names it and has its own message. The panic hook is called for that
/// only if it was not called for the strand's own panic, as when the strand ended by
/// [`resume_unwind`](std::panic::resume_unwind). In either case after all strands have ended. A
/// handle given to [`std::mem::forget`] may yet be joined, as far as the scope knows: that strand's
/// panic is reported on stderr only.
///
/// Opened in a destructor while its strand unwinds, it cannot wait; if strands are left when `f`
/// returns, the process aborts with a sentence, because they may use what they borrowed.
///
/// # Outside a fiber
/// The strands are OS threads.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let mut counts = [0, 0];
///     let (left, right) = counts.split_at_mut(1);
///     ramie::fiber::scope(|s| {
///         s.spawn(|| left[0] = 3);
///         s.spawn(|| right[0] = 4);
///     });
///     assert_eq!(counts, [3, 4]);
/// });
/// ```
/// What does not outlive the call cannot be borrowed:
/// ```compile_fail,E0373
/// ramie::run(|| ramie::fiber::scope(|s| {
///     let short = 1;
///     s.spawn(|| println!("{short}"));
/// }));
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope::new();
    scope.close_after(|| f(&scope))
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Makes a scope that is closed by [`close_after`](Self::close_after); dropped with strands in
    /// it, it ends the process.
    ///
    /// # Panics
    /// Where the strand could not wait for the scope's end.
    #[track_caller]
    pub(crate) fn new() -> Self {
        Scope { data: ScopeData::new(), scope: PhantomData, env: PhantomData }
    }

    /// Runs `f`, then waits for all strands of the scope.
    #[track_caller]
    pub(crate) fn close_after<T>(&self, f: impl FnOnce() -> T) -> T {
        // Caught, so that the wait happens outside the unwinding, where other fibers may run.
        let outcome = crate::panic::catch(f);
        self.data.wait_for_all();
        let panicked = self.data.take_panic();
        match (outcome, panicked) {
            (Err(payload), _) => resume_unwind(payload),
            (Ok(_), Some(sentence)) if sentence.is_told => {
                Raised::new(NoValue::Panicked, Box::new(sentence.text)).raise()
            }
            (Ok(_), Some(sentence)) => panic!("{}", sentence.text),
            (Ok(value), None) => value,
        }
    }

    /// Spawns a fiber that may borrow what outlives the scope; twin of
    /// [`std::thread::Scope::spawn`].
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`spawn`](super::spawn).
    ///
    /// # Examples
    /// What is not `Sync` is not shared with another worker; [`Scope::spawn_local`] can:
    /// ```compile_fail,E0277
    /// let count = std::cell::Cell::new(0);
    /// ramie::fiber::scope(|s| drop(s.spawn(|| count.set(1))));
    /// ```
    /// A handle does not outlive its scope:
    /// ```compile_fail
    /// let leaked = ramie::fiber::scope(|s| s.spawn(|| 1));
    /// ```
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, f).unwrap_or_else(|error| panic!("cannot spawn: {error}"))
    }

    /// Spawns a fiber that stays on this worker and may borrow `!Send` values.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`spawn_local`](super::spawn_local). Also when called on another thread than the one
    /// that waits for the scope, where nobody would run the fiber while the scope waits.
    pub fn spawn_local<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        Builder::new()
            .spawn_scoped_local(self, f)
            .unwrap_or_else(|error| panic!("cannot spawn: {error}"))
    }

    pub(super) fn data(&'scope self) -> &'scope ScopeData {
        &self.data
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strands = self.data.strands.load(Ordering::Relaxed).saturating_sub(1);
        f.debug_struct("Scope").field("strands", &strands).finish_non_exhaustive()
    }
}
