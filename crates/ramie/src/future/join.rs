//! A future that waits for a strand.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    thread,
};

use crate::{
    core::wait::completion::Completion,
    fiber::{JoinHandle, ScopedJoinHandle},
};

/// The future of an awaited [`JoinHandle`], which waits for a strand and takes its value.
///
/// The future works on any executor and any thread. Dropping it detaches the strand, which then
/// continues by itself. A strand that awaits its own handle waits forever.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let fiber = ramie::fiber::spawn(|| 6 * 7);
///     let future = async { fiber.await.unwrap() };
///     assert_eq!(ramie::future::block_on(future), 42);
/// });
/// ```
/// The future is `Send` only if the value is:
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// ramie::run(|| send(ramie::fiber::spawn_local(|| std::rc::Rc::new(1)).into_future()));
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct JoinFuture<T> {
    handle: Option<JoinHandle<T>>,
}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = thread::Result<T>;
    type IntoFuture = JoinFuture<T>;

    fn into_future(self) -> JoinFuture<T> {
        JoinFuture { handle: Some(self) }
    }
}

/// The future of an awaited [`ScopedJoinHandle`], which waits for a strand of a scope and takes its
/// value.
///
/// Dropping the future drops the handle: the scope still waits for the strand, and panics if the
/// strand panicked.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let words = ["one", "three"];
///     let length = ramie::fiber::scope(|scope| {
///         let [one, three] = words.each_ref().map(|word| scope.spawn(|| word.len()));
///         ramie::future::block_on(async { one.await.unwrap() + three.await.unwrap() })
///     });
///     assert_eq!(length, 8);
/// });
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct ScopedJoinFuture<'scope, T> {
    handle: Option<ScopedJoinHandle<'scope, T>>,
}

impl<'scope, T> IntoFuture for ScopedJoinHandle<'scope, T> {
    type Output = thread::Result<T>;
    type IntoFuture = ScopedJoinFuture<'scope, T>;

    fn into_future(self) -> ScopedJoinFuture<'scope, T> {
        ScopedJoinFuture { handle: Some(self) }
    }
}

/// Returns whether the strand of this handle has ended; if not, leaves a waker.
fn poll(end: Option<&Completion>, context: &Context<'_>) -> bool {
    end.expect("a future is not polled after it was ready").poll(context.waker())
}

macro_rules! join_future {
    ($future:ident $(<$scope:lifetime>)?) => {
        impl<T> Unpin for $future<$($scope,)? T> {}

        impl<T> Future for $future<$($scope,)? T> {
            type Output = thread::Result<T>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                if !poll(self.handle.as_ref().map(|handle| handle.completion()), context) {
                    return Poll::Pending;
                }
                let handle = self.handle.take().expect("looked at above");
                Poll::Ready(handle.join())
            }
        }

        impl<T> Drop for $future<$($scope,)? T> {
            fn drop(&mut self) {
                if let Some(handle) = &self.handle {
                    // Removes the waker before the handle detaches, because a handle must not
                    // detach while a waiter is registered.
                    drop(handle.completion().take_waker());
                }
            }
        }

        impl<T> fmt::Debug for $future<$($scope,)? T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).field("handle", &self.handle).finish()
            }
        }
    };
}

join_future!(JoinFuture);
join_future!(ScopedJoinFuture<'_>);
