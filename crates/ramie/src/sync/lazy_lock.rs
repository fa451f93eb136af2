//! A value that is made when first used.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    panic::{RefUnwindSafe, UnwindSafe},
    sync,
};

use super::OnceLock;

/// A value that is made when first used; twin of [`std::sync::LazyLock`], poisoning included.
///
/// A strand that uses the value parks while another one makes it.
///
/// # Examples
/// ```
/// use ramie::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "made when used".split(' ').collect());
/// assert_eq!(WORDS.len(), 3);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// `None` once the closure was called. The lock is never contended, because it is held only
    /// while the closure is taken out, which one strand does.
    make: sync::Mutex<Option<F>>,
}

impl<T, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Makes a lock whose value `f` makes at the first use.
    pub const fn new(f: F) -> Self {
        LazyLock { value: OnceLock::new(), make: sync::Mutex::new(Some(f)) }
    }

    /// Returns the value, and makes it if this is the first use; the same as dereferencing.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand makes the value.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// If the closure panics, and in every later call. Inside [`no_switch`](crate::no_switch()), if
    /// the call would have to wait.
    #[track_caller]
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| {
            let make = this.make.lock().unwrap_or_else(sync::PoisonError::into_inner).take();
            make.unwrap_or_else(|| panic_about_poison())()
        })
    }

    /// As [`LazyLock::force`], but returns the value mutably.
    ///
    /// # Panics
    /// As [`LazyLock::force`].
    #[track_caller]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value.get_mut().expect("made above")
    }
}

impl<T, F> LazyLock<T, F> {
    /// Returns the value if it has been made.
    ///
    /// # Blocking
    /// Never.
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// Returns the value if it has been made.
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

#[cold]
#[track_caller]
fn panic_about_poison() -> ! {
    panic!("LazyLock instance has previously been poisoned");
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[track_caller]
    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => debug.field(value),
            None => debug.field(&format_args!("<uninit>")),
        };
        debug.finish()
    }
}
