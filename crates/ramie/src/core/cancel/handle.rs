//! Scopes that can be cancelled, and the handles that cancel them.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{frame::Frame, node::Node};

/// Calls `f` in a scope that can be cancelled.
///
/// # Cancellation
/// Not a cancel point itself: `f` is always called, and its value is returned.
///
/// # Examples
/// ```
/// use ramie::{cancel, fiber, net::TcpListener};
///
/// ramie::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     let error = cancel::scope(|scope| {
///         let handle = scope.handle();
///         fiber::spawn(move || handle.cancel_because("shutting down"));
///         listener.accept().unwrap_err()
///     });
///     assert!(cancel::is_cancelled(&error));
///     assert_eq!(error.to_string(), "cancelled: shutting down");
/// });
/// ```
/// The scope cannot leave the closure; its handles may, and do nothing afterwards:
/// ```compile_fail
/// let kept = ramie::cancel::scope(|scope| scope);
/// kept.cancel();
/// ```
pub fn scope<T>(f: impl FnOnce(&CancelScope) -> T) -> T {
    let scope = CancelScope { node: Arc::new(Node::new()) };
    Node::enter(&scope.node, || Frame::node(&scope.node).enter(|| f(&scope)))
}

/// The scope that [`scope`] runs its closure in.
pub struct CancelScope {
    node: Arc<Node>,
}

impl CancelScope {
    /// Returns a handle with which the scope can be cancelled from anywhere.
    #[must_use]
    pub fn handle(&self) -> CancelHandle {
        CancelHandle { node: Arc::clone(&self.node) }
    }

    /// Cancels the scope; see [`CancelHandle::cancel`].
    pub fn cancel(&self) -> bool {
        self.node.cancel(NO_REASON)
    }

    /// Cancels the scope with a reason.
    pub fn cancel_because(&self, reason: impl Into<Cow<'static, str>>) -> bool {
        self.node.cancel(reason.into())
    }

    /// Returns whether the scope, or one around it, has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }
}

impl fmt::Debug for CancelScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelScope").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

const NO_REASON: Cow<'static, str> = Cow::Borrowed("cancel was called");

/// Cancels a scope, from any strand or thread. After the scope was left, this has no effect, unless
/// something else [runs](Self::run) in the scope.
#[derive(Clone)]
pub struct CancelHandle {
    node: Arc<Node>,
}

impl CancelHandle {
    /// Cancels the scope: from now on every cancel point in it fails, and waiting cancel points
    /// return. Returns whether this was the first call.
    ///
    /// # Blocking
    /// Never; takes time in proportion to the strands in the scope.
    pub fn cancel(&self) -> bool {
        self.node.cancel(NO_REASON)
    }

    /// Cancels the scope with a reason.
    ///
    /// # Blocking
    /// As [`cancel`](Self::cancel).
    ///
    /// # Cancellation
    /// Not a cancel point.
    pub fn cancel_because(&self, reason: impl Into<Cow<'static, str>>) -> bool {
        self.node.cancel(reason.into())
    }

    /// Returns whether the scope, or one around it, has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Calls `f` in the scope of this handle, so that it is cancelled with the scope, also after
    /// the call of [`scope`] has returned. So one scope may serve several strands, or many calls
    /// one after another, which costs less than a scope for each. A scope around this call cancels
    /// `f`, too, but not what others run in the scope of the handle.
    ///
    /// # Cancellation
    /// Not a cancel point itself: `f` is always called. If the scope has been cancelled already,
    /// every cancel point in `f` fails.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use ramie::{cancel, fiber};
    ///
    /// ramie::run(|| {
    ///     let stop = cancel::scope(|scope| scope.handle());
    ///     let waiting = fiber::spawn({
    ///         let stop = stop.clone();
    ///         move || stop.run(|| ramie::sync::Event::new().wait().is_err())
    ///     });
    ///     fiber::sleep(Duration::from_millis(1));
    ///     stop.cancel();
    ///     assert!(waiting.join().unwrap());
    /// });
    /// ```
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        match Node::around() {
            None => Frame::node(&self.node).enter(f),
            // A scope of its own inside of both, because a cancellation of the scope around this
            // call must not reach what others run in the scope of the handle.
            Some(_) => scope(|inner| Node::under(&self.node, &inner.node, f)),
        }
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("is_cancelled", &self.is_cancelled()).finish()
    }
}
