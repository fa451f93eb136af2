//! What a runtime does when it finds something wrong with the program.

use std::{fmt, sync::Arc};

/// Selects what a runtime does when it finds something wrong with the program, such as a
/// [`Stall`](crate::Stall).
///
/// # Examples
/// ```
/// use ramie::{Reaction, Runtime};
///
/// let runtime = Runtime::builder()
///     .on_stall(Reaction::call(|stall: &ramie::Stall| eprintln!("{}", stall.fiber())))
///     .build()?;
/// runtime.run(|| ());
/// # Ok::<(), std::io::Error>(())
/// ```
#[non_exhaustive]
#[derive(Default)]
pub enum Reaction<T> {
    /// Writes a report to stderr and gives it to the program's logger.
    #[default]
    Report,
    /// Does nothing.
    Ignore,
    /// Writes a report to stderr and aborts the process.
    Abort,
    /// Calls a function, on a thread of the runtime. It must return, because `run` waits for it.
    Call(Arc<dyn Fn(&T) + Send + Sync>),
}

impl<T> Reaction<T> {
    /// Returns the reaction that calls `f`.
    pub fn call(f: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Reaction::Call(Arc::new(f))
    }
}

impl<T> Clone for Reaction<T> {
    fn clone(&self) -> Self {
        match self {
            Reaction::Report => Reaction::Report,
            Reaction::Ignore => Reaction::Ignore,
            Reaction::Abort => Reaction::Abort,
            Reaction::Call(f) => Reaction::Call(Arc::clone(f)),
        }
    }
}

impl<T> fmt::Debug for Reaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reaction::Report => "Report",
            Reaction::Ignore => "Ignore",
            Reaction::Abort => "Abort",
            Reaction::Call(_) => "Call(..)",
        })
    }
}
