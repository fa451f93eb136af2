//! The limits, cancel scopes, scoped values and attached contexts that the strands of a
//! `fiber::scope` inherit from its opener. Recorded when the scope is opened, because the frames
//! that hold them may lie on the stack of a coroutine's resumer, which may be gone before the scope
//! is.

use ramie_coro::context;

use super::{
    attached::{InheritedContexts, has_no_context},
    scoped_value,
};
use crate::core::cancel;

pub(crate) struct Inherited {
    limits: Option<cancel::InheritedLimits>,
    values: Option<scoped_value::InheritedValues>,
    contexts: Option<InheritedContexts>,
}

impl Inherited {
    /// Records the present limits, scopes, values and contexts; `None` if there are none.
    #[inline]
    pub(crate) fn snapshot() -> Option<Self> {
        if context::is_empty() && has_no_context() { None } else { Self::record() }
    }

    #[cold]
    fn record() -> Option<Self> {
        let inherited = Inherited {
            limits: cancel::snapshot(),
            values: scoped_value::InheritedValues::snapshot(),
            contexts: InheritedContexts::snapshot(),
        };
        let has_any = inherited.limits.is_some()
            || inherited.values.is_some()
            || inherited.contexts.is_some();
        has_any.then_some(inherited)
    }

    /// Runs the closure of a strand of the scope, which does not unwind, inside the inherited
    /// limits, scopes, values and contexts.
    #[cold]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let with_contexts = || match &self.contexts {
            Some(contexts) => contexts.enter(f),
            None => f(),
        };
        let with_values = || match &self.values {
            Some(values) => values.enter(with_contexts),
            None => with_contexts(),
        };
        match &self.limits {
            Some(limits) => cancel::inherit(limits, with_values),
            None => with_values(),
        }
    }
}
