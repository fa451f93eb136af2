//! Coroutines with settings other than the defaults.

use std::sync::Arc;

use super::{Coroutine, Yielder, pools};
use crate::{DEFAULT_USABLE_BYTES, StackError, StackSize};

// Same name as `ramie::Builder`: std names builders by their module, as in `std::thread::Builder`.
/// Creates a coroutine with a chosen stack size and label.
///
/// # Examples
/// ```
/// use ramie_coro::{Builder, Resumed};
///
/// let builder = Builder::new().stack_size(1024 * 1024).label("parser");
/// let coroutine = builder.build(|yielder, input: u32| yielder.suspend(input + 1))?;
/// assert_eq!(coroutine.resume(1), Resumed::Yielded(2));
/// assert_eq!(coroutine.resume(7), Resumed::Returned(7));
/// # Ok::<(), ramie_coro::StackError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    stack_bytes: usize,
    label: Option<Arc<str>>,
}

impl Builder {
    /// Starts with a stack of [`DEFAULT_USABLE_BYTES`] and no label.
    pub fn new() -> Builder {
        Builder { stack_bytes: DEFAULT_USABLE_BYTES, label: None }
    }

    /// Sets the usable bytes of the stack, rounded up to whole pages; the range is that of
    /// [`StackSize`]. Untouched pages cost no memory.
    pub fn stack_size(mut self, usable_bytes: usize) -> Builder {
        self.stack_bytes = usable_bytes;
        self
    }

    /// Sets the coroutine's name in reports of overflows.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Builder {
        self.label = Some(label.into());
        self
    }

    /// Creates the coroutine.
    ///
    /// # Errors
    /// If the stack size is out of range (the caller's fault), or if the system provides no memory
    /// for a stack.
    pub fn build<Input, Yield, Return, F>(
        self,
        body: F,
    ) -> Result<Coroutine<Input, Yield, Return>, StackError>
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
        Input: 'static,
        Yield: 'static,
        Return: 'static,
    {
        let stack = pools::take(StackSize::new(self.stack_bytes)?)?;
        if self.label.is_some() {
            stack.set_label(self.label);
        }
        Ok(Coroutine::on_stack(stack, body))
    }
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}
