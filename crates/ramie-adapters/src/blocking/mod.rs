//! Values whose calls block their thread, used on the blocking pool.
//!
//! ```
//! # struct Connection(u64);
//! # impl Connection {
//! #     fn open() -> std::io::Result<Self> { Ok(Connection(41)) }
//! #     fn add(&mut self, number: u64) -> std::io::Result<u64> { self.0 += number; Ok(self.0) }
//! # }
//! use ramie_adapters::Blocking;
//!
//! ramie::run(|| {
//!     let mut connection = Blocking::open(Connection::open)?;
//!     // Other fibers of the worker run while this one waits for the answer.
//!     let answer = connection.run(|connection| connection.add(1))?;
//!     assert_eq!(answer, 42);
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```

// # Protocol
// A call moves the value from `Blocking` to a job, so that the job owns it while it runs. No other
// strand can reach the value then, and the value lives as long as the job, even if the fiber is
// cancelled, abandoned, or leaked with its stack.
//
// `run` waits for its job to the end (`ramie::blocking`), and the job puts the value into the frame
// of the call. `run_or_cancelled` may leave its job behind; its steps are in `errand.rs`.

mod errand;
mod manager;

use std::{fmt, io, mem};

use ramie::{cancel::check_cancelled, fiber};

use self::errand::Errand;
pub use self::manager::BlockingManager;

const LOST: &str = "the value is lost, because a call on it was cancelled or panicked; \
                    open a new one";

/// A value whose calls block, used on the blocking pool by one strand at a time.
///
/// Made for clients that open their own sockets or files: connections of rusqlite, diesel or mysql,
/// lettre's `SmtpTransport`, sessions of ssh2. A fiber that calls one of them directly blocks its
/// worker. To share a value among fibers, put it behind a [`ramie::sync::Mutex`], or keep several
/// in a pool ([`BlockingManager`]).
///
/// While a call runs, its job on the pool owns the value. So the value outlives the call, however
/// the fiber ends:
///
/// | during a call | the value |
/// |---|---|
/// | the closure returns | comes back |
/// | the closure panics | is dropped on the pool, and *lost* |
/// | [`run`](Self::run): the strand is cancelled | comes back, because the call waits for the closure |
/// | [`run_or_cancelled`](Self::run_or_cancelled): the strand is cancelled | comes back if the closure has not begun; otherwise it is lost, and the job drops it when the closure has ended |
/// | the fiber is abandoned when its runtime ends | stays with the job until the closure has ended, and is leaked then, as all values of abandoned fibers are |
///
/// Dropping a `Blocking` drops the value on the pool and waits for it, because closing a database
/// or a connection blocks, too. A value without a destructor is dropped at once.
///
/// # Panics
/// As every call that waits, dropping it inside [`no_switch`](ramie::no_switch()) panics, if the
/// value has a destructor.
///
/// # Examples
/// The value must be `Send`:
/// ```compile_fail,E0277
/// ramie_adapters::Blocking::new(std::rc::Rc::new(1));
/// ```
/// A reference to the value does not leave the closure:
/// ```compile_fail
/// let mut text = ramie_adapters::Blocking::new(String::new());
/// let escaped = text.run(|text| text.as_mut_str());
/// ```
pub struct Blocking<T: Send> {
    /// `None` while a call runs, and when the value is lost. In a box, because it moves to a job
    /// and back.
    value: Option<Box<T>>,
}

impl<T: Send> Blocking<T> {
    /// Takes a value.
    ///
    /// # Blocking
    /// Never.
    pub fn new(value: T) -> Self {
        Blocking { value: Some(Box::new(value)) }
    }

    /// Opens a value on the pool.
    ///
    /// # Blocking
    /// Parks the fiber until the closure has ended.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// That of the closure.
    ///
    /// # Panics
    /// With the closure's panic. Inside [`no_switch`](ramie::no_switch()).
    #[track_caller]
    pub fn open<E: Send>(open: impl FnOnce() -> Result<T, E> + Send) -> Result<Self, E> {
        let value = ramie::blocking(|| open().map(Box::new))?;
        Ok(Blocking { value: Some(value) })
    }

    /// Calls a closure with the value on the pool, and waits until the closure has ended. The
    /// closure may borrow.
    ///
    /// # Blocking
    /// Parks the fiber until the closure has ended.
    ///
    /// # Cancellation
    /// Not a cancel point; [`run_or_cancelled`](Self::run_or_cancelled) is.
    ///
    /// # Panics
    /// With the closure's panic; the value is lost then. If the value was lost before
    /// ([`is_lost`](Self::is_lost)). Inside [`no_switch`](ramie::no_switch()).
    ///
    /// # Outside a fiber
    /// Calls the closure on the calling thread, which may block. The same applies while the strand
    /// unwinds from a panic.
    #[track_caller]
    pub fn run<R: Send>(&mut self, f: impl FnOnce(&mut T) -> R + Send) -> R {
        let mut lent = Lent { value: self.value.take(), home: &mut self.value };
        let (value, result) = match lent.value.is_some() {
            true => ramie::blocking(|| {
                // Owned by the job from here on, so that a panic drops it there.
                let mut value = lent.value.take().expect("checked above");
                let result = f(&mut value);
                (value, result)
            }),
            false => panic!("{LOST}"),
        };
        lent.value = Some(value);
        result
    }

    /// Calls a closure with the value on the pool, as a cancel point: if the strand is cancelled,
    /// or a limit expires, this call returns at once, and the closure goes on with the value, which
    /// is lost. The closure must not borrow, because it may outlive the call.
    ///
    /// A runtime that ends waits for such a closure, in its grace period.
    ///
    /// # Blocking
    /// Parks the fiber until the closure has ended or the strand is cancelled.
    ///
    /// # Cancellation
    /// A cancel point. If the closure has not begun, it never runs, and the value is not lost. If
    /// it has ended, its result is returned. Otherwise it goes on: its effects still happen, the
    /// value and the result are dropped on the pool, and a panic is only printed.
    ///
    /// # Errors
    /// The strand was cancelled ([`Cancelled::of`](ramie::cancel::Cancelled::of) finds the reason).
    /// `BrokenPipe`: the value was lost before. `OutOfMemory`: there is no memory for the fiber
    /// that waits for the job; the value is not lost.
    ///
    /// # Panics
    /// With the closure's panic; the value is lost then. Inside [`no_switch`](ramie::no_switch());
    /// the closure is not called then.
    ///
    /// # Outside a fiber
    /// Calls the closure on a new thread.
    ///
    /// # Examples
    /// ```
    /// use std::{thread, time::Duration};
    ///
    /// use ramie::cancel;
    /// use ramie_adapters::Blocking;
    ///
    /// ramie::run(|| {
    ///     let mut connection = Blocking::new(String::from("a connection"));
    ///     let limit = Duration::from_millis(1);
    ///     let late = cancel::try_with_timeout(limit, || {
    ///         connection.run_or_cancelled(|_| thread::sleep(Duration::from_millis(50)))
    ///     });
    ///     assert!(cancel::is_cancelled(&late.unwrap_err()));
    ///     if connection.is_lost() {
    ///         // The closure had begun. It has the old value.
    ///         connection = Blocking::new(String::from("another connection"));
    ///     }
    ///     assert_eq!(connection.run(|connection| connection.pop()), Some('n'));
    /// });
    /// ```
    #[track_caller]
    pub fn run_or_cancelled<R>(
        &mut self,
        f: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> io::Result<R>
    where
        T: 'static,
        R: Send + 'static,
    {
        check_cancelled()?;
        let Some(value) = self.value.take() else {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, LOST));
        };
        let errand = Errand::new(value);
        let mut lent = Handed { home: &mut self.value, errand: Some(errand.clone()) };
        let job = errand.clone();
        let help = move || ramie::blocking(move || job.carry_out(f));
        let helper = fiber::Builder::new().name("blocking job".to_owned());
        // On this worker, because the helper only waits. A thread has no time to run fibers.
        let helper = match fiber::current().id().is_thread() {
            true => helper.spawn(help),
            false => helper.spawn_local(help),
        };
        let (value, outcome) = errand.wait(helper);
        lent.errand = None;
        *lent.home = value;
        outcome
    }

    /// Returns whether the value was lost in an interrupted call. All calls but this one fail then.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.value.is_none()
    }

    /// Returns the value, unless it was lost. Its drop may block.
    #[must_use]
    pub fn into_inner(mut self) -> Option<T> {
        self.value.take().map(|value| *value)
    }
}

/// A value on its way to a job. If the job never takes it, it goes home.
struct Lent<'a, T> {
    home: &'a mut Option<Box<T>>,
    value: Option<Box<T>>,
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        *self.home = self.value.take();
    }
}

/// A value that was handed to a job. If the call is left by a panic before the job has begun,
/// because it may not wait, the value goes home.
struct Handed<'a, T, R> {
    home: &'a mut Option<Box<T>>,
    errand: Option<Errand<T, R>>,
}

impl<T, R> Drop for Handed<'_, T, R> {
    fn drop(&mut self) {
        if let Some(errand) = self.errand.take() {
            *self.home = errand.take_back();
        }
    }
}

impl<T: Send> Drop for Blocking<T> {
    fn drop(&mut self) {
        // A value without a destructor does not wait for a thread of the pool, because all threads
        // may be busy. The manager drops such a value when a request is cancelled.
        if mem::needs_drop::<T>()
            && let Some(value) = self.value.take()
        {
            ramie::blocking(move || drop(value));
        }
    }
}

impl<T: Send> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}
