//! OpenTelemetry's own context, which a program uses without `tracing`, for each strand.

use std::{any::Any, cell::RefCell};

use opentelemetry::{Context, ContextGuard};
use ramie::fiber::{self, AttachedContext, InheritedContext, StrandContext};

/// Calls `f` with a current context that only the calling strand has, also while `f` waits. The
/// strands of scopes that `f` opens have it as well.
pub fn with_context<T>(context: Context, f: impl FnOnce() -> T) -> T {
    let _attached = OwnContext::attach(context);
    f()
}

struct OwnContext {
    context: Context,
    /// While the strand runs.
    guard: RefCell<Option<ContextGuard>>,
}

impl OwnContext {
    fn attach(context: Context) -> AttachedContext {
        let guard = RefCell::new(Some(context.clone().attach()));
        fiber::attach_context(OwnContext { context, guard })
    }
}

impl StrandContext for OwnContext {
    fn suspend(&self) {
        drop(self.guard.take());
    }

    fn resume(&self) {
        *self.guard.borrow_mut() = Some(self.context.clone().attach());
    }

    fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
        Some(Box::new(Inherited(self.context.clone())))
    }
}

struct Inherited(Context);

impl InheritedContext for Inherited {
    fn attach(&self) -> Box<dyn Any> {
        Box::new(OwnContext::attach(self.0.clone()))
    }
}
