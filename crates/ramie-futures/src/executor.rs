//! Tasks as fibers.

use std::future::Future;

use hyper::rt::Executor;
use ramie::{fiber, future::block_on};

/// Runs each task on a fiber of its own, that any worker may start.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fibers;

impl<F> Executor<F> for Fibers
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        drop(fiber::spawn(|| block_on(task)));
    }
}

/// Runs each task on a fiber of the worker that asks for it: a task that is not `Send` is welcome,
/// and a connection's tasks stay together.
#[derive(Clone, Copy, Default, Debug)]
pub struct LocalFibers;

impl<F> Executor<F> for LocalFibers
where
    F: Future + 'static,
{
    fn execute(&self, task: F) {
        drop(fiber::spawn_local(|| block_on(task)));
    }
}
