//! The scope that fails fast.

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    AsFailure, Failures,
    merged::{Failed, Merged},
};
use crate::{
    core::{
        cancel::{self, CancelHandle, Cancelled},
        strand::catch_raised,
    },
    fiber::{Scope, ScopedJoinHandle},
    sync::Event,
};

const SIBLING_FAILED: &str = "another strand of the scope failed";

/// Runs `f` with a scope that fails fast: the first error or panic, of a strand or of `f` itself,
/// cancels all others, and the call returns when all have ended.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until every strand of the scope has ended.
///
/// # Cancellation
/// Not a cancel point itself; cancelling a scope around the call cancels its strands.
///
/// # Errors
/// The errors of the strands and of `f`, merged [by the rule](super).
///
/// # Panics
/// With the first panic of a strand or of `f`, after all have ended.
///
/// # Examples
/// ```
/// use std::io;
/// use ramie::{net::TcpListener, structured::try_scope};
///
/// ramie::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let result: Result<(), _> = try_scope(|scope| {
///         scope.spawn(|| listener.accept());
///         scope.spawn(|| Err::<(), _>(io::Error::other("no route")));
///         Ok(())
///     });
///     // The first strand was cancelled, which is no failure in its own right.
///     assert_eq!(result.unwrap_err().to_string(), "no route");
///     io::Result::Ok(())
/// }).unwrap();
/// ```
#[track_caller]
pub fn try_scope<'env, T, E, Via>(
    f: impl for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> Result<T, E>,
) -> Result<T, Failures<E>>
where
    E: AsFailure<Via> + 'env,
{
    try_calls(|scope| scope.watch(|| f(scope)))
}

/// Runs [`try_join!`](crate::try_join). `f` returns `None` only if a strand has failed.
#[doc(hidden)]
#[track_caller]
pub fn try_calls<'env, T, E, Via>(
    f: impl for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> Option<T>,
) -> Result<T, Failures<E>>
where
    E: AsFailure<Via> + 'env,
{
    let called_at = Location::caller();
    cancel::scope(|cancel_scope| {
        let scope = TryScope {
            strands: Scope::new(),
            cancel: cancel_scope.handle(),
            merged: Merged::new(),
        };
        let value = scope.strands.close_after(called_at, || {
            // The closure panics if a strand that it joins was not run.
            let value = catch_raised(|| f(&scope)).unwrap_or_else(|raised| {
                scope.merged.add_panic(raised);
                scope.cancel_all();
                None
            });
            // The first panic is resumed, not a later one about strands that were not run.
            scope.merged.raise_panic();
            value
        });
        match scope.merged.take_failures() {
            Some(failures) => Err(failures),
            None => Ok(value.expect("without a failure there is a value")),
        }
    })
}

/// The scope of [`try_scope`].
// The bound on `E` lets closures borrow. With it, the only upper bound of `'scope` that a closure
// with this scope knows is `'env`. Without it, an error with a lifetime of its own would be a
// second upper bound, and the compiler would require `'static`, the only lifetime above both.
pub struct TryScope<'scope, 'env: 'scope, E: 'env> {
    strands: Scope<'scope, 'env>,
    cancel: CancelHandle,
    merged: Merged<E>,
}

impl<'scope, E> TryScope<'scope, '_, E> {
    /// Spawns a fiber whose failure cancels the scope.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`fiber::spawn`](crate::fiber::spawn).
    #[track_caller]
    pub fn spawn<T, F>(&'scope self, f: F) -> TryJoinHandle<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send,
    {
        self.spawn_at(Location::caller(), f)
    }

    /// As [`TryScope::spawn`], for the caller of a function that spawns for it: dumps name
    /// `spawned_at`.
    #[track_caller]
    pub(super) fn spawn_at<T, F>(
        &'scope self,
        spawned_at: &'static Location<'static>,
        f: F,
    ) -> TryJoinHandle<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send,
    {
        TryJoinHandle { strand: self.strands.spawn_at(spawned_at, || self.watch(f)) }
    }

    /// Spawns a fiber that stays on this worker; its closure need not be `Send`.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`Scope::spawn_local`].
    #[track_caller]
    pub fn spawn_local<T, F>(&'scope self, f: F) -> TryJoinHandle<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + 'scope,
        T: 'scope,
    {
        TryJoinHandle { strand: self.strands.spawn_local(|| self.watch(f)) }
    }

    /// Spawns a fiber and waits until the fiber reports that it is ready, with a value, for example
    /// the address that it listens on.
    ///
    /// # Blocking
    /// Parks the strand until the fiber calls [`Ready::set`], or ends.
    ///
    /// # Cancellation
    /// A cancel point until the fiber is ready.
    ///
    /// # Errors
    /// The fiber ended, or this strand was cancelled, before the fiber was ready. If the fiber
    /// failed, its error is the scope's.
    ///
    /// # Panics
    /// As [`fiber::spawn`](crate::fiber::spawn).
    ///
    /// # Examples
    /// ```
    /// use std::io;
    /// use ramie::{net::{TcpListener, TcpStream}, structured::{Ready, try_scope}};
    ///
    /// ramie::run(|| {
    ///     let served = try_scope(|scope| {
    ///         let address = scope.start(|ready: Ready<_>| {
    ///             let listener = TcpListener::bind("127.0.0.1:0")?;
    ///             ready.set(listener.local_addr()?);
    ///             listener.accept().map(drop)
    ///         })?;
    ///         TcpStream::connect(address).map(drop)
    ///     });
    ///     assert!(served.is_ok());
    /// });
    /// ```
    #[track_caller]
    pub fn start<V, F>(&'scope self, f: F) -> Result<V, Cancelled>
    where
        F: FnOnce(Ready<V>) -> Result<(), E> + Send + 'scope,
        V: Send + 'scope,
        E: Send,
    {
        let start = Arc::new(Start { value: Mutex::new(None), is_over: Event::new() });
        let ready = Ready { start: Arc::clone(&start) };
        let at_end = Arc::clone(&start);
        self.strands.spawn(move || {
            self.watch(|| f(ready));
            // After the failure was recorded, so that the failure, and not the error of `start`, is
            // the cause.
            at_end.is_over.set();
        });
        let waited = start.is_over.wait();
        start.take().ok_or_else(|| match waited.and_then(|()| cancel::check_cancelled()) {
            Ok(()) => Cancelled::because("the fiber ended before it was ready"),
            Err(cancelled) => cancelled,
        })
    }

    /// Returns a handle that cancels the scope.
    ///
    /// If there is no other error, the error of a strand that was cancelled is the error of the
    /// scope, because its work is not done. If a strand only serves the others, let it return `Ok`
    /// when it is cancelled.
    ///
    /// # Examples
    /// ```
    /// use std::io;
    /// use ramie::{net::{TcpListener, TcpStream}, structured::{Failure, try_scope}};
    ///
    /// fn serve(listener: &TcpListener) -> io::Result<()> {
    ///     loop {
    ///         listener.accept()?;
    ///     }
    /// }
    ///
    /// ramie::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let peer = try_scope(|scope| {
    ///         scope.spawn(|| serve(&listener).or_else(|error| match error.is_cancelled() {
    ///             true => Ok(()),
    ///             false => Err(error),
    ///         }));
    ///         let peer = TcpStream::connect(listener.local_addr()?)?.peer_addr()?;
    ///         scope.cancel_handle().cancel_because("the client is done");
    ///         Ok::<_, io::Error>(peer)
    ///     })?;
    ///     assert_eq!(peer, listener.local_addr()?);
    ///     io::Result::Ok(())
    /// }).unwrap();
    /// ```
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Runs `f` and records its failure.
    fn watch<T>(&self, f: impl FnOnce() -> Result<T, E>) -> Option<T> {
        let failed = match self.merged.run(f) {
            Ok(value) => return Some(value),
            Err(failed) => failed,
        };
        if failed != Failed::Cancelled {
            self.cancel_all();
        }
        None
    }

    fn cancel_all(&self) {
        self.cancel.cancel_because(SIBLING_FAILED);
    }
}

impl<E> fmt::Debug for TryScope<'_, '_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryScope").field("strands", &self.strands).finish_non_exhaustive()
    }
}

/// The state shared by a fiber and the strand that started it.
struct Start<V> {
    value: Mutex<Option<V>>,
    /// Set when the fiber is ready, or has ended.
    is_over: Event,
}

impl<V> Start<V> {
    fn take(&self) -> Option<V> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Lets a fiber that was started by [`TryScope::start`] report that it is ready.
pub struct Ready<V> {
    start: Arc<Start<V>>,
}

impl<V> Ready<V> {
    /// Reports that the fiber is ready; the call of [`TryScope::start`] returns `value`.
    pub fn set(self, value: V) {
        *self.start.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.start.is_over.set();
    }
}

impl<V> fmt::Debug for Ready<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ready")
    }
}

/// Waits for a fiber of a [`TryScope`].
#[derive(Debug)]
pub struct TryJoinHandle<'scope, T> {
    strand: ScopedJoinHandle<'scope, Option<T>>,
}

impl<T> TryJoinHandle<'_, T> {
    /// Waits until the fiber has ended and returns its value.
    ///
    /// # Blocking
    /// Parks the strand, unless the fiber has ended already.
    ///
    /// # Cancellation
    /// Not a cancel point. Cancelling a scope around it cancels the fiber; the wait ends when the
    /// fiber does.
    ///
    /// # Errors
    /// The fiber failed. The scope has recorded its error or panic and is cancelled, so the closure
    /// can leave by `?`, and the scope returns the cause.
    ///
    /// # Panics
    /// If the fiber was not run, because there was no memory for its stack or its runtime ended.
    #[track_caller]
    pub fn join(self) -> Result<T, Cancelled> {
        // The scope gets the panic of the closure.
        let value = match self.strand.join_raised() {
            Ok(value) => value,
            // A strand that unwinds did not wait, and a second panic would end the process.
            Err(_) if std::thread::panicking() => None,
            Err(raised) => raised.raise(),
        };
        value.ok_or_else(|| Cancelled::because(SIBLING_FAILED))
    }

    /// Returns whether the fiber has ended, so that `join` would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.strand.is_finished()
    }
}
