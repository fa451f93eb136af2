//! The record of a wait: its purpose, its deadline, and the events that may end it.

use std::{cell::Cell, panic::Location};

use crate::core::time::Deadline;

/// The purpose of a wait, as dumps and reports name it.
#[derive(Debug)]
pub(crate) struct WaitKind {
    pub(crate) name: &'static str,
}

impl WaitKind {
    pub(crate) const fn new(name: &'static str) -> Self {
        WaitKind { name }
    }
}

/// One wait, described by the waiter.
pub(crate) struct WaitRecord {
    pub(crate) kind: &'static WaitKind,
    pub(crate) location: &'static Location<'static>,
    /// Two numbers to which the kind gives a meaning: a descriptor, an address, an id.
    pub(crate) detail: [u64; 2],
    pub(crate) deadline: Deadline,
    pub(super) is_cancel_point: bool,
    /// Only the completion of an op ends the wait, and the header does not show the wait.
    pub(crate) is_plain: bool,
    /// The deadline, or an earlier limit of a scope around the wait.
    pub(super) ends_at: Cell<Deadline>,
    /// A scope around the wait may be cancelled by request.
    pub(super) is_in_scope: Cell<bool>,
    /// Takes the waiter off its list when its strand is abandoned.
    pub(crate) unlink: Option<Unlink>,
}

/// A hook and its argument. It runs on the worker that owns the waiting strand.
#[derive(Clone, Copy)]
pub(crate) struct Unlink {
    pub(crate) hook: unsafe fn(*const ()),
    pub(crate) target: *const (),
}

impl WaitRecord {
    /// The record of a full wait: any thread may end it.
    #[track_caller]
    #[inline]
    pub(crate) fn new(kind: &'static WaitKind) -> Self {
        WaitRecord::at(kind, Location::caller(), false)
    }

    /// The record of a plain wait: only the completion of the strand's op ends it.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn plain(kind: &'static WaitKind) -> Self {
        WaitRecord::at(kind, Location::caller(), true)
    }

    #[inline(always)]
    fn at(kind: &'static WaitKind, location: &'static Location<'static>, is_plain: bool) -> Self {
        WaitRecord {
            kind,
            location,
            detail: [0; 2],
            deadline: Deadline::NEVER,
            is_cancel_point: false,
            is_plain,
            ends_at: Cell::new(Deadline::NEVER),
            is_in_scope: Cell::new(false),
            unlink: None,
        }
    }

    #[inline]
    pub(crate) fn until(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self.ends_at.set(deadline);
        self
    }

    /// Makes the wait a cancel point.
    #[inline]
    pub(crate) fn cancellable(self) -> Self {
        self.cancellable_if(true)
    }

    /// Makes the wait a cancel point, or none.
    #[inline(always)]
    pub(crate) fn cancellable_if(mut self, is_cancel_point: bool) -> Self {
        self.is_cancel_point = is_cancel_point;
        self
    }

    /// The record of the rest of a wait, which neither a deadline nor a cancellation ends any more.
    pub(crate) fn of_rest(record: &WaitRecord) -> Self {
        WaitRecord { detail: record.detail, ..WaitRecord::at(record.kind, record.location, false) }
    }

    /// The instant at which the wait ends at the latest, by its own deadline or by a limit around
    /// it.
    pub(crate) fn ends_at(&self) -> Deadline {
        self.ends_at.get()
    }

    #[inline]
    pub(crate) fn with_detail(mut self, first: u64, second: u64) -> Self {
        self.detail = [first, second];
        self
    }

    pub(crate) fn with_unlink(mut self, hook: unsafe fn(*const ()), target: *const ()) -> Self {
        self.unlink = Some(Unlink { hook, target });
        self
    }
}
