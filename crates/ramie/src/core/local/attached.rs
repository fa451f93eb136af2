//! The contexts that are attached to strands: state of a library in thread-locals, such as the
//! entered spans of `tracing`, that leaves the thread when its strand suspends.
//!
//! | state of a context | means | changed by |
//! |---|---|---|
//! | running | its strand runs, or is a thread without fibers | [`suspend_all`], [`end_all`], its guard |
//! | suspended | its strand is suspended | [`Suspended::resume_all`], its guard |
//! | detached | no hook is called any more | |
//!
//! The contexts of the strand that runs are in [`RUNNING`]. While a strand is suspended, they lie
//! in the frame that suspends it, so they need no place in the strand. Code in a worker's loop has
//! no contexts, because it is no strand's.
//!
//! Hooks are code of the program. They may attach and detach contexts, so no reference into the
//! list is held while one runs: each step looks for the next context anew.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt,
    mem::ManuallyDrop,
    panic::{RefUnwindSafe, UnwindSafe},
    rc::{Rc, Weak},
};

use crate::core::{
    panic::{call_quietly, drop_quietly},
    worker,
};

/// State in thread-locals that belongs to one strand; attached by [`attach_context`].
///
/// [`suspend`](Self::suspend) takes the state off the thread, and [`resume`](Self::resume) puts it
/// back. They are called in turns, `suspend` first.
///
/// Neither may suspend the strand, nor a coroutine that the strand is resuming: they run in a
/// [`no_switch`](crate::no_switch()) region, and see no limit, scoped value or effect of the
/// strand.
/// If a hook panics, the panic hook reports the panic, and the strand continues.
pub trait StrandContext: Any {
    /// The strand is about to suspend, and others will run on its thread; or it ends with the
    /// context attached. If there are several contexts, the one attached last is suspended first.
    fn suspend(&self);

    /// The strand continues on its thread. The context attached first is resumed first.
    fn resume(&self);

    /// Returns what the strands of a scope inherit, or `None` if they inherit nothing. Called when
    /// the strand opens a scope, and when it calls [`run`](crate::run()), whose closure inherits as
    /// well. A panic is passed on to the caller of `scope` or `run`.
    fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
        None
    }
}

/// The part of a context that the strands of a scope inherit from its opener.
pub trait InheritedContext: Send + Sync {
    /// Sets the context for the calling strand, which is about to run its closure. The value is
    /// dropped after the closure. If this panics, the panic hook reports the panic, and the closure
    /// runs without the context.
    fn attach(&self) -> Box<dyn Any>;
}

/// Detaches a context when it is dropped; made by [`attach_context`].
///
/// If it is forgotten, the context stays attached until its strand has ended. It may be dropped on
/// another strand of the thread, for example by a coroutine that moved there. Other threads never
/// get it:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<ramie::fiber::AttachedContext>();
/// ```
#[must_use = "dropping the guard detaches the context"]
pub struct AttachedContext {
    /// Weak, so that a context may keep its own guard.
    attached: Weak<Attached<dyn StrandContext>>,
}

impl fmt::Debug for AttachedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedContext").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HookState {
    Running,
    Suspended,
    Detached,
}

struct Attached<C: ?Sized> {
    state: Cell<HookState>,
    context: C,
}

type ContextList = Vec<Rc<Attached<dyn StrandContext>>>;

thread_local! {
    /// The contexts of the strand that runs, in the order in which they were attached. Without a
    /// destructor, so it can be used as long as the thread runs.
    static RUNNING: ManuallyDrop<RefCell<ContextList>> =
        const { ManuallyDrop::new(RefCell::new(ContextList::new())) };
}

/// Runs `f`, which calls no code of the program, on the list. The exception is a global allocator
/// that attaches contexts: it finds an empty list meanwhile, and its contexts are dropped.
#[inline]
fn with_list<R>(f: impl FnOnce(&mut ContextList) -> R) -> R {
    RUNNING.with(|running| match running.try_borrow_mut() {
        Ok(mut list) => f(&mut list),
        Err(_) => f(&mut ContextList::new()),
    })
}

/// Attaches a context to the calling strand, until the guard is dropped or the strand ends.
///
/// From then on, each suspension of the strand calls the hooks of the context (see
/// [`StrandContext`]); strands without a context do not pay for this. A context that is attached on
/// the stack of a coroutine belongs to the strand that resumes the coroutine.
///
/// # Blocking
/// Never.
///
/// # Outside a fiber
/// The hooks of a thread's context are called only when fibers may run while the thread waits, such
/// as in [`run`](crate::run()), because otherwise nobody else uses the thread's state. In code that
/// a worker calls outside its strands, such as a logger, this drops the context at once.
///
/// # Examples
/// A thread-local whose value each strand has for itself:
/// ```
/// use std::cell::Cell;
///
/// use ramie::fiber::{self, StrandContext};
///
/// thread_local! {
///     static LOCALE: Cell<&'static str> = const { Cell::new("en") };
/// }
///
/// struct Locale(Cell<&'static str>);
///
/// impl StrandContext for Locale {
///     fn suspend(&self) {
///         self.0.set(LOCALE.replace(self.0.get()));
///     }
///     fn resume(&self) {
///         self.0.set(LOCALE.replace(self.0.get()));
///     }
/// }
///
/// ramie::run(|| {
///     let reader = fiber::spawn_local(|| {
///         let _attached = fiber::attach_context(Locale(Cell::new(LOCALE.replace("fr"))));
///         fiber::yield_now();
///         assert_eq!(LOCALE.get(), "fr");
///     });
///     fiber::yield_now();
///     assert_eq!(LOCALE.get(), "en");
///     reader.join().unwrap();
/// });
/// ```
pub fn attach_context<C: StrandContext>(context: C) -> AttachedContext {
    let attached: Rc<Attached<dyn StrandContext>> =
        Rc::new(Attached { state: Cell::new(HookState::Running), context });
    let guard = AttachedContext { attached: Rc::downgrade(&attached) };
    if worker::note_context() {
        with_list(|list| list.push(attached));
    }
    guard
}

/// Calls `f` with the context of type `C` that was attached to the calling strand last; returns
/// `None` if the strand has none of that type.
///
/// # Blocking
/// Never, unless `f` does.
pub fn with_attached_context<C: StrandContext, R>(f: impl FnOnce(&C) -> R) -> Option<R> {
    let is_one = |attached: &Attached<dyn StrandContext>| {
        let context: &dyn Any = &attached.context;
        context.is::<C>()
    };
    let found = with_list(|list| list.iter().rev().find(|attached| is_one(attached)).cloned())?;
    let context: &dyn Any = &found.context;
    context.downcast_ref::<C>().map(f)
}

impl Drop for AttachedContext {
    fn drop(&mut self) {
        let Some(attached) = self.attached.upgrade() else { return };
        attached.state.set(HookState::Detached);
        // Not in the list of the strand that runs if another strand, which is suspended, owns it.
        let (removed, is_last) = with_list(|list| {
            let position = list.iter().rposition(|other| Rc::ptr_eq(other, &attached));
            (position.map(|position| list.remove(position)), list.is_empty())
        });
        if removed.is_some() && is_last {
            worker::note_no_context();
        }
        // The destructor of the context may wait, so it comes last.
        drop(removed);
    }
}

/// Whether the strand that runs has no context.
#[inline]
pub(crate) fn has_no_context() -> bool {
    with_list(|list| list.is_empty())
}

/// The contexts of a suspended strand.
pub(crate) struct Suspended(ContextList);

/// Suspends the contexts of the strand that runs, and takes them off it. The caller has begun a
/// `no_switch` region.
pub(crate) fn suspend_all() -> Suspended {
    let is_running = |attached: &Attached<_>| attached.state.get() == HookState::Running;
    let next =
        || with_list(|list| list.iter().rev().find(|attached| is_running(attached)).cloned());
    while let Some(attached) = next() {
        attached.state.set(HookState::Suspended);
        call_quietly(|| attached.context.suspend());
        drop_quietly(attached);
    }
    Suspended(with_list(std::mem::take))
}

impl Suspended {
    /// Gives the contexts back to their strand, which continues, and resumes them, except those
    /// whose guards were dropped meanwhile. The caller has begun a `no_switch` region.
    pub(crate) fn resume_all(self) {
        let state_is = |state| move |attached: &Attached<_>| attached.state.get() == state;
        let (is_detached, is_suspended) =
            (state_is(HookState::Detached), state_is(HookState::Suspended));
        let mut contexts = self.0;
        let mut detached = ContextList::new();
        if contexts.iter().any(|attached| is_detached(attached)) {
            detached.extend(contexts.extract_if(.., |attached| is_detached(attached)));
        }
        with_list(|list| *list = contexts);
        drop_quietly(detached);
        let next =
            || with_list(|list| list.iter().find(|attached| is_suspended(attached)).cloned());
        while let Some(attached) = next() {
            attached.state.set(HookState::Running);
            call_quietly(|| attached.context.resume());
            drop_quietly(attached);
        }
    }
}

/// Suspends and detaches the contexts of a strand that ends: their guards were forgotten, or belong
/// to a coroutine. The caller has begun a `no_switch` region.
pub(crate) fn end_all() {
    while let Some(attached) = with_list(ContextList::pop) {
        if attached.state.replace(HookState::Detached) == HookState::Running {
            call_quietly(|| attached.context.suspend());
        }
        drop_quietly(attached);
    }
}

/// The contexts that the strands of a scope inherit from its opener.
pub(crate) struct InheritedContexts(Vec<Box<dyn InheritedContext>>);

impl Drop for InheritedContexts {
    /// A scope or a run ends, which must not panic.
    fn drop(&mut self) {
        self.0.drain(..).for_each(drop_quietly);
    }
}

// A strand that unwinds leaves nothing half done here: a scope only reads the list.
impl UnwindSafe for InheritedContexts {}
impl RefUnwindSafe for InheritedContexts {}

impl InheritedContexts {
    /// Asks the contexts of the strand that runs; `None` if nothing is inherited.
    #[inline]
    pub(crate) fn snapshot() -> Option<Self> {
        if has_no_context() { None } else { Self::of_contexts() }
    }

    #[cold]
    fn of_contexts() -> Option<Self> {
        let attached = with_list(|list| list.clone());
        let inherited = worker::no_switch(|| {
            attached.iter().filter_map(|attached| attached.context.inherit()).collect::<Vec<_>>()
        });
        (!inherited.is_empty()).then_some(InheritedContexts(inherited))
    }

    /// Runs the closure of a strand, which does not unwind, with the inherited contexts.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let mut guards = Vec::with_capacity(self.0.len());
        for context in &self.0 {
            call_quietly(|| guards.push(context.attach()));
        }
        let result = f();
        while let Some(guard) = guards.pop() {
            drop_quietly(guard);
        }
        result
    }
}
