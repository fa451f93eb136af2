//! A default dispatcher for one strand.

use std::{any::Any, cell::RefCell};

use ramie::fiber::{self, AttachedContext, InheritedContext, StrandContext};
use tracing_core::{
    Dispatch,
    dispatcher::{self, DefaultGuard},
};

/// Calls `f` with a default dispatcher that only the calling strand has, also while `f` waits; twin
/// of [`tracing::dispatcher::with_default`](tracing_core::dispatcher::with_default).
///
/// The strands of scopes that `f` opens, and the closure of a `run` inside, have it as well.
///
/// # Blocking
/// Never, unless `f` does.
///
/// # Examples
/// ```
/// use ramie_tracing::{PerFiber, with_default};
/// use tracing::Dispatch;
///
/// ramie::run(|| {
///     let dispatch = Dispatch::new(PerFiber::new(tracing_subscriber::fmt().finish()));
///     with_default(&dispatch, || {
///         ramie::fiber::yield_now();
///         tracing::info!("only this strand writes to this subscriber");
///     });
/// });
/// ```
pub fn with_default<T>(dispatch: &Dispatch, f: impl FnOnce() -> T) -> T {
    let _attached = StrandDefault::attach(dispatch);
    f()
}

/// The default dispatcher of a strand.
struct StrandDefault {
    dispatch: Dispatch,
    /// While the strand runs.
    guard: RefCell<Option<DefaultGuard>>,
}

impl StrandDefault {
    fn attach(dispatch: &Dispatch) -> AttachedContext {
        let guard = RefCell::new(Some(dispatcher::set_default(dispatch)));
        fiber::attach_context(StrandDefault { dispatch: dispatch.clone(), guard })
    }
}

impl StrandContext for StrandDefault {
    fn suspend(&self) {
        drop(self.guard.take());
    }

    fn resume(&self) {
        *self.guard.borrow_mut() = Some(dispatcher::set_default(&self.dispatch));
    }

    fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
        Some(Box::new(InheritedDefault(self.dispatch.clone())))
    }
}

struct InheritedDefault(Dispatch);

impl InheritedContext for InheritedDefault {
    fn attach(&self) -> Box<dyn Any> {
        Box::new(StrandDefault::attach(&self.0))
    }
}
