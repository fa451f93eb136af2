//! The limits, cancel scopes and scoped values that the strands of a `fiber::scope` inherit from
//! its opener. Recorded when the scope is opened, because the frames that hold them may lie on the
//! stack of a coroutine's resumer, which may be gone before the scope is.

use ramie_coro::context;

use super::scoped_value;
use crate::core::cancel;

pub(crate) struct Inherited {
    limits: Option<cancel::InheritedLimits>,
    values: Option<scoped_value::InheritedValues>,
}

impl Inherited {
    /// Records the present limits, scopes and values; `None` if there are none.
    #[inline]
    pub(crate) fn snapshot() -> Option<Self> {
        if context::is_empty() { None } else { Self::of_context() }
    }

    #[cold]
    fn of_context() -> Option<Self> {
        let inherited = Inherited {
            limits: cancel::snapshot(),
            values: scoped_value::InheritedValues::snapshot(),
        };
        let has_any = inherited.limits.is_some() || inherited.values.is_some();
        has_any.then_some(inherited)
    }

    /// Runs a strand of the scope inside the inherited limits, scopes and values.
    #[cold]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let with_values = || match &self.values {
            Some(values) => values.enter(f),
            None => f(),
        };
        match &self.limits {
            Some(limits) => cancel::inherit(limits, with_values),
            None => with_values(),
        }
    }
}
