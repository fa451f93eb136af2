//! The fibers of a connection, all of which end before it does.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use hyper::rt::Executor;
use ramie::{
    fiber::{Builder, Scope},
    future::block_on,
};

/// Spawns fibers on the worker of the connection, in the scope of the connection.
#[derive(Clone, Copy)]
pub(super) struct ScopedFibers<'scope, 'env>(pub(super) &'scope Scope<'scope, 'env>);

impl<'scope> ScopedFibers<'scope, '_> {
    /// If there is no memory for a fiber, `f` is dropped. A panic, which the hook has reported,
    /// ends `f` only.
    pub(super) fn spawn(&self, f: impl FnOnce() + 'scope) {
        let run = || drop(catch_unwind(AssertUnwindSafe(f)));
        if let Err(error) = Builder::new().spawn_scoped_local(self.0, run) {
            log::warn!("there is no fiber for a request: {error}");
        }
    }
}

/// Runs the tasks of hyper. If one is dropped, hyper resets its stream.
impl<'scope, F> Executor<F> for ScopedFibers<'scope, '_>
where
    F: Future<Output = ()> + 'scope,
{
    fn execute(&self, task: F) {
        self.spawn(|| block_on(task));
    }
}
