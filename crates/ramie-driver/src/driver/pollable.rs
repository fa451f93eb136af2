//! A driver whose thread waits elsewhere, in the loop of another program.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::Driver;
use crate::backend::Backend;
use crate::feature::{Feature, FeatureSet};

/// The features of a ring for whose descriptor no other loop can wait. With `DEFER_TASKRUN` the
/// kernel posts no completion until the thread enters the ring, and wakes nobody who polls it. An
/// eventfd that is registered with the ring is no way out, because it missed completions of reads
/// from other eventfds (both seen with Linux 6.18).
pub const UNPOLLABLE: FeatureSet = FeatureSet::EMPTY.with(Feature::DeferTaskrun);

impl Driver {
    /// Returns a descriptor that is readable when a turn is worth its cost, so that another loop
    /// can wait for it by poll(2) or epoll(7). It counts only after
    /// [`turn_to_poll`](Self::turn_to_poll) has returned true. It must not be read.
    ///
    /// It is a duplicate of the ring's descriptor, or of the epoll set. A ring needs a config that
    /// masks [`UNPOLLABLE`]. While it has completions to post, the kernel interrupts the thread, so
    /// epoll_wait(2) may fail with `EINTR`; calls that are restarted after signals do not.
    ///
    /// # Errors
    /// No descriptors are left.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn pollable(&mut self) -> io::Result<OwnedFd> {
        self.check_fork();
        self.backend.pollable()
    }

    /// Makes a [`turn`](Self::turn) without waiting, before the thread waits for the descriptor of
    /// [`pollable`](Self::pollable). Returns whether it may wait: then all ops are with the kernel,
    /// no frame is complete, and each later completion and wake makes the descriptor readable.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn turn_to_poll(&mut self) -> io::Result<bool> {
        self.check_fork();
        self.backend.turn_to_poll()
    }

    /// Returns how long the thread may wait for that descriptor until the next turn is due anyway.
    pub fn poll_limit(&self) -> Option<Duration> {
        self.backend.poll_limit()
    }
}
