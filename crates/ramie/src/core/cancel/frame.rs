//! The frames of a strand's context for cancellation: limits, scopes, shields.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ramie_coro::context;

use super::{
    Cancelled,
    node::{Node, StrandMembership},
    notices::note_notice,
};
use crate::core::time::Deadline;

static KEY: context::Key = context::Key::new();

enum Kind<'a> {
    Deadline(Deadline),
    Node(&'a Arc<Node>),
    /// Hides the frames outside; has a limit of its own.
    Shield(Deadline),
    /// The frame that a strand of a `fiber::scope` inherits from the opener of the scope.
    Inherited(&'a InheritedLimits),
}

/// One limit, scope or shield.
pub(super) struct Frame<'a> {
    kind: Kind<'a>,
    /// That of the strand in the scope, if the frame has one.
    membership: StrandMembership,
    /// The number of calls that have returned early without an error because of this frame.
    ignored: Cell<u32>,
    /// Identifies this frame; assigned when first asked for.
    serial: Cell<Option<NonZeroU64>>,
}

impl<'a> Frame<'a> {
    fn new(kind: Kind<'a>) -> Self {
        let membership = StrandMembership::new();
        Frame { kind, membership, ignored: Cell::new(0), serial: Cell::new(None) }
    }

    pub(super) fn deadline(deadline: Deadline) -> Self {
        Frame::new(Kind::Deadline(deadline))
    }

    pub(super) fn node(node: &'a Arc<Node>) -> Self {
        Frame::new(Kind::Node(node))
    }

    pub(super) fn shield(limit: Deadline) -> Self {
        Frame::new(Kind::Shield(limit))
    }

    #[inline]
    pub(super) fn enter<T>(self, f: impl FnOnce() -> T) -> T {
        struct Departure<'a>(&'a StrandMembership, &'a Arc<Node>);
        impl Drop for Departure<'_> {
            fn drop(&mut self) {
                self.0.leave(self.1);
            }
        }
        // Of the kind that the caller has just made, so a limit has nothing to leave.
        let _leave = self.scope().map(|node| Departure(&self.membership, node));
        context::with(&KEY, &self, f)
    }

    fn limit(&self) -> Deadline {
        match &self.kind {
            Kind::Deadline(deadline) | Kind::Shield(deadline) => *deadline,
            Kind::Inherited(inherited) => inherited.deadline,
            Kind::Node(_) => Deadline::NEVER,
        }
    }

    #[inline]
    fn scope(&self) -> Option<&'a Arc<Node>> {
        match &self.kind {
            Kind::Node(node) => Some(node),
            Kind::Inherited(inherited) => inherited.node.as_ref(),
            Kind::Deadline(_) | Kind::Shield(_) => None,
        }
    }

    fn cause(&self) -> Option<Cancelled> {
        let cancelled = self.scope().and_then(|node| node.cause());
        cancelled.or_else(|| self.limit().has_passed().then(Cancelled::by_deadline))
    }

    fn serial(&self) -> NonZeroU64 {
        // Not one of the atomics that models check, because no protocol depends on it.
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.serial.get().unwrap_or_else(|| {
            // Relaxed: the number publishes nothing.
            let serial = NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed));
            self.serial.set(Some(serial));
            serial
        })
    }
}

/// Shows the frames in reach to `f`, the innermost first, until it returns false. `f` must not
/// suspend.
fn visit(f: impl FnMut(&Frame<'_>) -> bool) {
    // SAFETY: the callers in this file pass closures that compute and never suspend.
    unsafe { context::visit(shown_to(f)) };
}

/// The function that shows those values of a context that are frames to `f`.
fn shown_to(
    mut f: impl FnMut(&Frame<'_>) -> bool,
) -> impl FnMut(&'static context::Key, *const ()) -> bool {
    move |key, value| {
        if !std::ptr::eq(key, &KEY) {
            return true;
        }
        // SAFETY: the value under this key is a frame, by `Frame::enter`, which keeps it alive.
        let frame = unsafe { &*value.cast::<Frame<'_>>() };
        f(frame) && !matches!(frame.kind, Kind::Shield(_))
    }
}

/// The sum of the limits and scopes around a wait.
#[derive(Clone, Copy)]
pub(crate) struct Ambient {
    pub(crate) deadline: Deadline,
    /// A scope around the wait may be cancelled from outside.
    pub(crate) has_node: bool,
    /// A scope around the wait is cancelled.
    pub(crate) is_cancelled: bool,
}

/// Sums up the limits and scopes around the current strand.
pub(crate) fn ambient() -> Ambient {
    let mut sum = Ambient { deadline: Deadline::NEVER, has_node: false, is_cancelled: false };
    visit(|frame| {
        sum.deadline = sum.deadline.min(frame.limit());
        if let Some(node) = frame.scope() {
            sum.has_node = true;
            sum.is_cancelled |= node.is_cancelled();
        }
        true
    });
    sum
}

/// The limits and scopes around a strand, for dumps.
pub(crate) struct Around {
    pub(crate) deadline: Deadline,
    /// The address of the innermost scope that can be cancelled.
    pub(crate) scope: Option<usize>,
    pub(crate) cause: Option<Cancelled>,
}

/// Describes the limits and scopes around a strand of this thread.
///
/// # Safety
/// The strand belongs to this thread: it is suspended, or runs this call.
pub(crate) unsafe fn around(strand: &context::Strand) -> Around {
    let mut around = Around { deadline: Deadline::NEVER, scope: None, cause: None };
    let add = |frame: &Frame<'_>| {
        around.deadline = around.deadline.min(frame.limit());
        around.scope = around.scope.or(frame.scope().map(|node| Arc::as_ptr(node).addr()));
        if around.cause.is_none() {
            around.cause = frame.cause();
        }
        true
    };
    // SAFETY: the caller's promise, and `add` does not suspend.
    unsafe { context::visit_of(strand, shown_to(add)) };
    around
}

/// The reason why the current strand is cancelled, if it is. A caller that gets one reports it, so
/// this counts as a notice.
pub(crate) fn cause() -> Option<Cancelled> {
    let mut cause = None;
    visit(|frame| {
        cause = frame.cause();
        cause.is_none()
    });
    if cause.is_some() {
        note_notice();
    }
    cause
}

/// The serial number of the outermost frame in reach that cancels the current strand, if any does.
pub(super) fn outermost_cause() -> Option<NonZeroU64> {
    let mut cause = None;
    visit(|frame| {
        if frame.cause().is_some() {
            cause = Some(frame.serial());
        }
        true
    });
    cause
}

/// The limits and scopes that the strands of a `fiber::scope` inherit from its opener.
#[derive(Clone)]
pub(crate) struct InheritedLimits {
    deadline: Deadline,
    node: Option<Arc<Node>>,
}

impl InheritedLimits {
    pub(super) fn into_node(self) -> Option<Arc<Node>> {
        self.node
    }
}

/// Records the limits and scopes that a scope opened now passes on to its strands; `None` if there
/// are none.
#[inline]
pub(crate) fn snapshot() -> Option<InheritedLimits> {
    if context::is_empty() { None } else { snapshot_of_frames() }
}

#[cold]
fn snapshot_of_frames() -> Option<InheritedLimits> {
    let mut inherited = InheritedLimits { deadline: Deadline::NEVER, node: None };
    visit(|frame| {
        inherited.deadline = inherited.deadline.min(frame.limit());
        if inherited.node.is_none() {
            inherited.node = frame.scope().cloned();
        }
        true
    });
    let has_any = inherited.node.is_some() || inherited.deadline != Deadline::NEVER;
    has_any.then_some(inherited)
}

/// Runs a strand of a scope inside the limits and scopes that it inherits.
#[cold]
pub(crate) fn inherit<T>(inherited: &InheritedLimits, f: impl FnOnce() -> T) -> T {
    Frame::new(Kind::Inherited(inherited)).enter(f)
}

/// Makes the current strand a member of the scopes in reach, so that a cancellation ends its wait.
pub(crate) fn join_scopes() {
    visit(|frame| {
        if let Some(node) = frame.scope() {
            // SAFETY: a frame in the context lies in its `enter`, with the node that it has; it
            // leaves that node at the end of `enter`.
            unsafe { frame.membership.join(node) };
        }
        true
    });
}

/// The number of calls that may return early after a mere yield.
const YIELDS: u32 = 8;
const LONGEST: Duration = Duration::from_millis(50);

/// Lets other strands run before a call returns early because it cannot report its cancellation.
#[cold]
pub(crate) fn back_off() {
    let mut ignored = 0;
    visit(|frame| {
        let is_cause = frame.cause().is_some();
        if is_cause {
            ignored = frame.ignored.get();
            frame.ignored.set(ignored.saturating_add(1));
        }
        !is_cause
    });
    if ignored < YIELDS {
        return crate::core::worker::yield_now();
    }
    let pause = Duration::from_millis(1 << (ignored - YIELDS).min(6)).min(LONGEST);
    super::shield(|| crate::core::worker::pause(pause));
}
