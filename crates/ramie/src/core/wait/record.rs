//! The record of a wait: its purpose, its deadline, and the events that may end it.

use std::{cell::Cell, panic::Location};

use crate::core::time::Deadline;

/// The purpose of a wait, as dumps and reports name it.
#[derive(Debug)]
pub(crate) struct WaitKind {
    pub(crate) name: &'static str,
    pub(crate) subject: Subject,
}

/// The meaning of the two numbers of a record's detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// The numbers mean nothing.
    Nothing,
    /// The numbers mean nothing. Only a strand or a thread of the program ends the wait.
    Unpark,
    /// A descriptor, or `u64::MAX` for an op without one; and a position in the file, or
    /// [`NO_OFFSET`].
    Descriptor,
    /// The address of the word of a Mutex: see [`mutex_owner`].
    Mutex,
    /// The addresses of the word of a RwLock and of the word with the id of its writer.
    RwLock,
    /// The address of a channel.
    Channel,
    /// The number of the arms of a select.
    Select,
    /// The address of another primitive.
    Object,
    /// The id of a strand.
    Strand,
    /// The address of the data of a scope.
    Scope,
}

/// The position of an op that has none, such as a receive from a socket.
pub(crate) const NO_OFFSET: u64 = u64::MAX;

/// The bits of a Mutex's word that are not of its owner's id.
const MUTEX_FLAGS: u64 = 0b11 << 30;

/// The id of the owner in the word of a Mutex; 0: it has none.
pub(crate) fn mutex_owner(word: u64) -> u64 {
    word & !MUTEX_FLAGS
}

impl Subject {
    /// Whether the detail may lead to the strands that have to act first.
    pub(crate) fn may_name_strands(self) -> bool {
        matches!(self, Subject::Mutex | Subject::RwLock | Subject::Strand | Subject::Scope)
    }
}

impl WaitKind {
    /// A wait whose record has no detail.
    pub(crate) const fn new(name: &'static str) -> Self {
        WaitKind { name, subject: Subject::Nothing }
    }

    /// A wait for an op, whose detail is [`Subject::Descriptor`].
    pub(crate) const fn of_op(name: &'static str) -> Self {
        WaitKind { name, subject: Subject::Descriptor }
    }

    /// A wait whose detail is about `subject`.
    pub(crate) const fn about(name: &'static str, subject: Subject) -> Self {
        WaitKind { name, subject }
    }
}

/// One wait, described by the waiter.
pub(crate) struct WaitRecord {
    pub(crate) kind: &'static WaitKind,
    pub(crate) location: &'static Location<'static>,
    /// Two numbers to which the kind gives a meaning: see [`Subject`].
    pub(crate) detail: [u64; 2],
    pub(crate) deadline: Deadline,
    pub(super) is_cancel_point: bool,
    /// Only the completion of an op ends the wait, and the header does not show the wait.
    pub(crate) is_plain: bool,
    /// The deadline, or an earlier limit of a scope around the wait.
    pub(super) ends_at: Cell<Deadline>,
    /// A scope around the wait may be cancelled by request.
    pub(super) is_in_scope: Cell<bool>,
    /// When the wait began, in ms by the worker's coarse clock.
    pub(crate) since_ms: Cell<u32>,
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
    #[inline(always)]
    pub(crate) fn new(kind: &'static WaitKind) -> Self {
        WaitRecord::at(kind, Location::caller(), false)
    }

    /// The record of a plain wait: only the completion of the strand's op ends it.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn plain(kind: &'static WaitKind) -> Self {
        WaitRecord::at(kind, Location::caller(), true)
    }

    /// Names the place in the program that waits, where a closure of Ramie waits for it.
    pub(crate) fn called_at(mut self, location: &'static Location<'static>) -> Self {
        self.location = location;
        self
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
            since_ms: Cell::new(0),
            unlink: None,
        }
    }

    #[inline(always)]
    pub(crate) fn until(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self.ends_at.set(deadline);
        self
    }

    /// Makes the wait a cancel point.
    #[inline(always)]
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

    /// Whether only strands and threads of the program can end the wait: neither time nor an op nor
    /// a job on the blocking pool. Asked about a strand that is suspended.
    pub(crate) fn is_bound_to_others(&self) -> bool {
        let by_itself = matches!(self.kind.subject, Subject::Nothing | Subject::Descriptor);
        !self.is_plain && !by_itself && self.ends_at() == Deadline::NEVER
    }

    /// Whether a scope around the wait may end it. Asked about a strand that is suspended.
    pub(crate) fn is_cancellable(&self) -> bool {
        self.is_cancel_point && self.is_in_scope.get()
    }

    #[inline(always)]
    pub(crate) fn with_detail(mut self, first: u64, second: u64) -> Self {
        self.detail = [first, second];
        self
    }

    pub(crate) fn with_unlink(mut self, hook: unsafe fn(*const ()), target: *const ()) -> Self {
        self.unlink = Some(Unlink { hook, target });
        self
    }
}
