//! Executors that run each task on a fiber.

use std::future::Future;

use hyper::rt::Executor;
use ramie::{fiber, future::block_on};

/// Runs each task on a fiber of its own, which any worker may start.
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

/// Runs each task on a fiber of the worker that submits it. So a task need not be `Send`, and the
/// tasks of a connection stay on one worker.
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
