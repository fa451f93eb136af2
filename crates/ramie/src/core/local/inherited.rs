//! What the strands of a `fiber::scope` have from the strand that opens it: limits, cancel scopes,
//! scoped values. Taken down when the scope is opened, since the frames that hold it may lie on a
//! coroutine's resumer, who may be gone before the scope is.

use ramie_coro::context;

use super::scoped_value;
use crate::core::cancel;

pub(crate) struct Inherited {
    limits: Option<cancel::Inherited>,
    values: Option<scoped_value::Inherited>,
}

impl Inherited {
    /// Takes down what is set here; `None`: nothing.
    #[inline]
    pub(crate) fn snapshot() -> Option<Self> {
        if context::is_empty() { None } else { Self::of_context() }
    }

    #[cold]
    fn of_context() -> Option<Self> {
        let inherited =
            Inherited { limits: cancel::snapshot(), values: scoped_value::Inherited::snapshot() };
        let has_any = inherited.limits.is_some() || inherited.values.is_some();
        has_any.then_some(inherited)
    }

    /// Runs a strand of the scope in it.
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
