//! The receiving end of a channel.

use std::{fmt, task::Waker, time::Duration};

use super::{
    core::{Core, add_handle, remove_handle},
    error::{RecvError, RecvTimeoutError, TryRecvError},
    timed::Timed,
};
use crate::core::{
    primitive::Arc,
    time::{Deadline, Instant},
};

/// The receiving end of a channel; clones receive from the same channel, and each value goes to one
/// of them.
pub struct Receiver<T> {
    pub(super) flavor: Flavor<T>,
}

/// The source of a receiver's values.
pub(super) enum Flavor<T> {
    Queue(Arc<Core<T>>),
    Timed(Arc<Timed>, fn(Instant) -> T),
    Never,
}

impl<T> Receiver<T> {
    pub(super) fn new(core: Arc<Core<T>>) -> Self {
        Receiver { flavor: Flavor::Queue(core) }
    }

    /// Waits for a value.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until there is a value or all senders are gone.
    ///
    /// # Cancellation
    /// A cancel point, even if there is a value, which then stays in the channel. If a sender hands
    /// over a value to this strand while it waits, the call returns the value.
    ///
    /// # Errors
    /// There is no value and all senders are gone, or the strand was cancelled. Also `Disconnected`
    /// if the call would have to wait on a fiber in a destructor that runs during a panic.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[inline(always)]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        match &self.flavor {
            Flavor::Queue(core) => core.recv(Deadline::NEVER, true).map_err(untimed),
            _ => self.recv_timed(Deadline::NEVER).map_err(untimed),
        }
    }

    /// Takes a value if there is one now.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `Empty`: there is no value yet. `Disconnected`: there is no value and all senders are gone.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.flavor {
            Flavor::Queue(core) => core.try_recv(),
            Flavor::Timed(timed, make) => timed.take().map(make).ok_or(TryRecvError::Empty),
            Flavor::Never => Err(TryRecvError::Empty),
        }
    }

    /// Takes a value, or leaves a waker to be called when there is a value.
    pub(crate) fn poll_recv(&self, future: u64, waker: &Waker) -> Result<T, TryRecvError> {
        match &self.flavor {
            Flavor::Queue(core) => core.poll_recv(future, waker),
            Flavor::Never => Err(TryRecvError::Empty),
            Flavor::Timed(..) => panic!(
                "a receiver of `after` or `tick` cannot be awaited; await the executor's own timer"
            ),
        }
    }

    /// Drops the waker of a future that no longer waits.
    pub(crate) fn forget_waker(&self, future: u64) {
        if let Flavor::Queue(core) = &self.flavor {
            core.forget_receiver(future);
        }
    }

    /// Waits for a value, for at most `timeout`.
    ///
    /// # Blocking
    /// As [`recv`](Self::recv).
    ///
    /// # Cancellation
    /// A cancel point, as [`recv`](Self::recv).
    ///
    /// # Errors
    /// The timeout passed first. Otherwise as [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Deadline::after(timeout), true)
    }

    /// Waits for a value, at most until `deadline`.
    ///
    /// # Blocking
    /// As [`recv`](Self::recv).
    ///
    /// # Cancellation
    /// A cancel point, as [`recv`](Self::recv).
    ///
    /// # Errors
    /// The timeout passed first. Otherwise as [`recv`](Self::recv).
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_until(Deadline::at(deadline), true)
    }

    /// Waits for a value; a receive from a timed channel is always a cancel point.
    #[track_caller]
    pub(crate) fn recv_until(
        &self,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> Result<T, RecvTimeoutError> {
        match &self.flavor {
            Flavor::Queue(core) => core.recv(deadline, is_cancel_point),
            _ => self.recv_timed(deadline),
        }
    }

    #[cold]
    #[track_caller]
    fn recv_timed(&self, deadline: Deadline) -> Result<T, RecvTimeoutError> {
        match &self.flavor {
            Flavor::Timed(timed, make) => timed.wait(deadline).map(make),
            _ => Timed::nothing().wait(deadline).map(|_| unreachable!("nothing never comes")),
        }
    }

    /// Returns the number of values in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.flavor {
            Flavor::Queue(core) => core.len(),
            Flavor::Timed(timed, _) => timed.deadline().has_passed().into(),
            Flavor::Never => 0,
        }
    }

    /// Returns whether there is no value in the channel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether there is no room; always true with capacity 0.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match &self.flavor {
            Flavor::Queue(core) => core.is_full(),
            Flavor::Timed(..) => !self.is_empty(),
            Flavor::Never => true,
        }
    }

    /// Returns the largest number of values that the channel holds; `None` without a limit.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        match &self.flavor {
            Flavor::Queue(core) => core.capacity(),
            Flavor::Timed(..) => Some(1),
            Flavor::Never => Some(0),
        }
    }

    /// Returns whether both receivers belong to the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        match (&self.flavor, &other.flavor) {
            (Flavor::Queue(one), Flavor::Queue(other)) => Arc::ptr_eq(one, other),
            (Flavor::Timed(one, _), Flavor::Timed(other, _)) => Arc::ptr_eq(one, other),
            (Flavor::Never, Flavor::Never) => true,
            _ => false,
        }
    }
}

fn untimed(error: RecvTimeoutError) -> RecvError {
    match error {
        RecvTimeoutError::Cancelled => RecvError::Cancelled,
        RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout => RecvError::Disconnected,
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        let flavor = match &self.flavor {
            Flavor::Queue(core) => Flavor::Queue(add_handle(core, &core.receivers)),
            Flavor::Timed(timed, make) => Flavor::Timed(Arc::clone(timed), *make),
            Flavor::Never => Flavor::Never,
        };
        Receiver { flavor }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if let Flavor::Queue(core) = &self.flavor
            && remove_handle(&core.receivers)
        {
            core.close_receivers();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver { .. }")
    }
}
