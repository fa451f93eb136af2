//! A cell that is written once.
//!
//! The value is in std's cell. This crate's [`Once`] decides which strand may write it, so a call
//! of std's cell never waits.

use std::{fmt, sync};

use super::Once;

/// A cell that is written once; twin of [`std::sync::OnceLock`].
///
/// # Examples
/// ```
/// static NAME: ramie::sync::OnceLock<String> = ramie::sync::OnceLock::new();
/// assert_eq!(NAME.get_or_init(|| "first".into()), "first");
/// assert_eq!(NAME.set("second".into()), Err("second".into()));
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    /// Makes an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        OnceLock { once: Once::new(), value: sync::OnceLock::new() }
    }

    /// Returns the value if the cell is full.
    ///
    /// # Blocking
    /// Never.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value if the cell is full.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Waits until the cell is full.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Once::wait_force`].
    #[track_caller]
    pub fn wait(&self) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        self.once.wait_force();
        self.get().expect("a complete cell has its value")
    }

    /// Writes the value.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand initialises it.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// The cell is full: the error contains the value.
    ///
    /// # Panics
    /// As [`OnceLock::get_or_init`].
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    /// Returns the value; if the cell is empty, calls `f` to make it. If `f` panics, the cell stays
    /// empty.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand initialises it. An `f` that
    /// initialises the same cell waits for itself forever.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// If `f` panics. Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.initialize(f),
        }
    }

    #[cold]
    #[track_caller]
    fn initialize<F: FnOnce() -> T>(&self, f: F) -> &T {
        self.once.call_once_force(|_| assert!(self.value.set(f()).is_ok(), "written once"));
        self.get().expect("a complete cell has its value")
    }

    /// Takes the value out.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value and leaves the cell empty.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = OnceLock::new();
        assert!(cell.set(value).is_ok(), "a new cell is empty");
        cell
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}
