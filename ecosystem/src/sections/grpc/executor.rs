//! Fibers for the tasks of a channel whose calls have timeouts, which tonic keeps by tokio's timer.

use std::future::Future;

use hyper::rt::Executor;
use ramie::fiber;
use ramie_futures::block_on_with;
use tokio::runtime::Handle;

/// Runs each task on a fiber, in the context of a runtime of tokio.
#[derive(Clone)]
pub(super) struct FibersBesideTokio(pub(super) Handle);

impl<F> Executor<F> for FibersBesideTokio
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let handle = self.0.clone();
        drop(fiber::spawn(move || block_on_with(&handle, task)));
    }
}
