//! Open connections, and the list of those that are idle.

use std::{collections::VecDeque, time::Duration};

use ramie::{
    fiber::{Fiber, JoinHandle},
    time::Instant,
};

use crate::{builder::Options, stats::CountedOpen};

/// An open connection.
pub(crate) struct Open<C> {
    pub(crate) connection: C,
    created: Instant,
    /// Dropped after the connection, so that it counts until it is gone.
    _counted: CountedOpen,
}

impl<C> Open<C> {
    pub(crate) fn new(connection: C, counted: CountedOpen) -> Self {
        Open { connection, created: Instant::now(), _counted: counted.connected() }
    }

    fn ends_at(&self, options: &Options) -> Option<Instant> {
        after(self.created, options.max_lifetime)
    }

    pub(crate) fn is_too_old(&self, options: &Options, now: Instant) -> bool {
        self.ends_at(options).is_some_and(|at| at <= now)
    }
}

/// The instant after a time; `None`: never.
fn after(start: Instant, time: Option<Duration>) -> Option<Instant> {
    start.checked_add(time?)
}

/// The earlier of two instants, where `None` means never.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// An idle connection.
pub(crate) struct Idle<C> {
    pub(crate) open: Open<C>,
    since: Instant,
}

impl<C> Idle<C> {
    /// When the connection is to be closed.
    fn due(&self, options: &Options) -> Option<Instant> {
        earlier(self.open.ends_at(options), after(self.since, options.idle_timeout))
    }

    pub(crate) fn has_expired(&self, options: &Options, now: Instant) -> bool {
        self.due(options).is_some_and(|at| at <= now)
    }

    /// Whether the connection is to be tested before it is lent.
    pub(crate) fn needs_test(&self, options: &Options, now: Instant) -> bool {
        let idle = now.saturating_duration_since(self.since);
        options.test_after_idle.is_some_and(|time| idle >= time)
    }
}

/// The keeper, as others see it.
///
/// | state | changed by | to |
/// |---|---|---|
/// | `Absent` | a strand that finds something to do for it | `Awake`, and it is spawned |
/// | `Awake`: it will look at the list | the keeper, when it has looked | `Waits`, `Absent` |
/// | `Waits` | the keeper, when it has waited | `Awake` |
/// | `Awake`, `Waits` | a strand that finds it abandoned | `Absent` |
pub(crate) enum Keeper {
    Absent,
    Awake,
    Waits {
        strand: Fiber,
        until: Instant,
        /// It could not open a connection, and tries again at `until`.
        pauses: bool,
    },
}

/// The action that a strand takes for the keeper when it has left the lock.
pub(crate) enum Call {
    Nothing,
    Spawn,
    Unpark(Fiber),
}

/// The idle connections of a pool; those returned last are at the back.
pub(crate) struct IdleList<C> {
    pub(crate) list: VecDeque<Idle<C>>,
    pub(crate) is_closed: bool,
    pub(crate) keeper: Keeper,
    /// The last keeper, once the strand that has spawned it has noted it.
    keeper_handle: Option<JoinHandle<()>>,
}

impl<C> IdleList<C> {
    pub(crate) fn new() -> Self {
        IdleList {
            list: VecDeque::new(),
            is_closed: false,
            keeper: Keeper::Absent,
            keeper_handle: None,
        }
    }

    /// Notes a keeper that was spawned, unless a later one is noted already.
    pub(crate) fn note_keeper(&mut self, handle: JoinHandle<()>) {
        if self.keeper_handle.as_ref().is_none_or(JoinHandle::is_finished) {
            self.keeper_handle = Some(handle);
        }
    }

    /// Adds a connection; returns when it is to be closed.
    pub(crate) fn push(
        &mut self,
        open: Open<C>,
        options: &Options,
        now: Instant,
    ) -> Option<Instant> {
        let idle = Idle { open, since: now };
        let due = idle.due(options);
        self.list.push_back(idle);
        due
    }

    /// When the next connection is to be closed.
    pub(crate) fn due(&self, options: &Options) -> Option<Instant> {
        self.list.iter().filter_map(|idle| idle.due(options)).min()
    }

    /// Takes a connection that is to be closed.
    pub(crate) fn take_expired(&mut self, options: &Options, now: Instant) -> Option<Idle<C>> {
        let at = self.list.iter().position(|idle| idle.has_expired(options, now))?;
        self.list.remove(at)
    }

    /// Decides how to let the keeper know that it has something to do at `due`, or at once because
    /// connections are missing.
    #[must_use]
    pub(crate) fn call_keeper(&mut self, due: Option<Instant>, is_missing: bool) -> Call {
        if self.is_closed || due.is_none() && !is_missing {
            return Call::Nothing;
        }
        if self.keeper_handle.as_ref().is_some_and(JoinHandle::is_finished) {
            // One that has ended by itself is absent already; this one was abandoned with the
            // fibers of its runtime.
            self.keeper_handle = None;
            self.keeper = Keeper::Absent;
        }
        match &self.keeper {
            Keeper::Absent => {
                self.keeper = Keeper::Awake;
                Call::Spawn
            }
            Keeper::Awake => Call::Nothing,
            Keeper::Waits { strand, until, pauses } => {
                let is_late = due.is_some_and(|due| due < *until);
                match is_late || is_missing && !pauses {
                    true => Call::Unpark(strand.clone()),
                    false => Call::Nothing,
                }
            }
        }
    }
}
