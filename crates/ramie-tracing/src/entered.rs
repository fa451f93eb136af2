//! The spans that a strand has entered, and their way off the thread and back.
//!
//! A strand that enters its first span attaches a context, [`EnteredSpans`], and one that exits its
//! last span detaches it. The context does not refer to the `Span` values of the program: it calls
//! the subscriber with their ids.
//!
//! | an entered span is | means | changed by |
//! |---|---|---|
//! | noted | its guard keeps it open | the first suspension, [`note_exit`], [`note_close`] |
//! | held | the context has a reference of its own, too | [`note_exit`], the end of the strand |
//!
//! *The case to fear*: the guard is forgotten and its span dropped, so the span is closed while it
//! is still entered. The subscriber must then not see its id again. So a span is held from the
//! first suspension on, and one that cannot be held, because it is closed, is not entered again.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use ramie::fiber::{self, AttachedContext, InheritedContext, StrandContext};
use tracing_core::{Subscriber, span::Id};

/// The subscriber inside a `PerFiber`.
pub(crate) type Inner = Arc<dyn Subscriber + Send + Sync>;

/// A span that a strand has entered.
struct EnteredSpan {
    subscriber: Inner,
    id: Id,
    /// Whether this owns a reference to the span.
    is_held: bool,
}

impl EnteredSpan {
    fn new(subscriber: &Inner, id: &Id) -> Self {
        EnteredSpan { subscriber: Arc::clone(subscriber), id: id.clone(), is_held: false }
    }

    fn is(&self, subscriber: &Inner, id: &Id) -> bool {
        self.id == *id && Arc::ptr_eq(&self.subscriber, subscriber)
    }

    /// Takes a reference to the span, unless it is closed.
    fn hold(&mut self) {
        if !self.is_held {
            self.is_held = is_quiet(|| {
                self.subscriber.clone_span(&self.id);
            });
        }
    }
}

impl Drop for EnteredSpan {
    fn drop(&mut self) {
        if self.is_held {
            is_quiet(|| {
                self.subscriber.try_close(self.id.clone());
            });
        }
    }
}

/// Calls a subscriber, whose panic must not keep the other spans from leaving the thread. The panic
/// hook has reported the panic. Returns whether there was none.
fn is_quiet(f: impl FnOnce()) -> bool {
    // The payload is forgotten, because its destructor may panic.
    catch_unwind(AssertUnwindSafe(f)).map_err(mem::forget).is_ok()
}

/// The spans that a strand has entered, the innermost last.
struct EnteredSpans {
    spans: RefCell<Vec<EnteredSpan>>,
    /// Detaches this when the last span is exited.
    guard: RefCell<Option<AttachedContext>>,
    /// Whether `spans` is borrowed for calls of subscribers. Subscribers may enter spans of their
    /// own meanwhile. They exit these at once, so nothing is noted then.
    is_switching: Cell<bool>,
}

/// Notes that the strand that runs has entered a span.
pub(crate) fn note_enter(subscriber: &Inner, id: &Id) {
    if fiber::with_attached_context(|own: &EnteredSpans| own.push(subscriber, id)).is_some() {
        return;
    }
    let spans = RefCell::new(vec![EnteredSpan::new(subscriber, id)]);
    let guard = RefCell::new(None);
    let is_switching = Cell::new(false);
    let attached = fiber::attach_context(EnteredSpans { spans, guard, is_switching });
    fiber::with_attached_context(|own: &EnteredSpans| own.guard.replace(Some(attached)));
}

/// Notes that the strand that runs has exited a span.
pub(crate) fn note_exit(subscriber: &Inner, id: &Id) {
    // Dropped outside of the call, because that may close the span, and end the context.
    drop(fiber::with_attached_context(|own: &EnteredSpans| own.remove(subscriber, id)));
}

/// Notes that a span was closed. If it is still entered, its guard was forgotten.
pub(crate) fn note_close(subscriber: &Inner, id: &Id) {
    let remove_all = |own: &EnteredSpans| {
        while let (Some(_), guard) = own.remove(subscriber, id) {
            drop(guard);
        }
    };
    fiber::with_attached_context(remove_all);
}

impl EnteredSpans {
    fn push(&self, subscriber: &Inner, id: &Id) {
        if !self.is_switching.get() {
            self.spans.borrow_mut().push(EnteredSpan::new(subscriber, id));
        }
    }

    /// Removes a span, and takes out the guard if it was the last one.
    fn remove(
        &self,
        subscriber: &Inner,
        id: &Id,
    ) -> (Option<EnteredSpan>, Option<AttachedContext>) {
        if self.is_switching.get() {
            return (None, None);
        }
        let mut spans = self.spans.borrow_mut();
        let Some(position) = spans.iter().rposition(|span| span.is(subscriber, id)) else {
            return (None, None);
        };
        let removed = spans.remove(position);
        let guard = if spans.is_empty() { self.guard.take() } else { None };
        (Some(removed), guard)
    }

    /// Runs `f`, which does not panic and may call subscribers.
    fn while_switching<R>(&self, f: impl FnOnce(&mut Vec<EnteredSpan>) -> R) -> R {
        self.is_switching.set(true);
        let result = f(&mut self.spans.borrow_mut());
        self.is_switching.set(false);
        result
    }
}

impl StrandContext for EnteredSpans {
    fn suspend(&self) {
        self.while_switching(|spans| {
            for span in spans.iter_mut().rev() {
                span.hold();
                is_quiet(|| span.subscriber.exit(&span.id));
            }
            spans.retain(|span| span.is_held);
        });
    }

    fn resume(&self) {
        self.while_switching(|spans| {
            for span in spans.iter() {
                is_quiet(|| span.subscriber.enter(&span.id));
            }
        });
    }

    /// The current span of each subscriber, which stays open for as long as the scope.
    fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
        let current = self.while_switching(|spans| current_of_each(spans));
        (!current.is_empty()).then(|| Box::new(InheritedSpans(current)) as _)
    }
}

/// Holds the current span of each subscriber.
fn current_of_each(spans: &[EnteredSpan]) -> Vec<EnteredSpan> {
    let mut current = Vec::<EnteredSpan>::new();
    for span in spans.iter().rev() {
        let is_known = |other: &EnteredSpan| Arc::ptr_eq(&other.subscriber, &span.subscriber);
        if !current.iter().any(is_known) {
            let mut inherited = EnteredSpan::new(&span.subscriber, &span.id);
            inherited.hold();
            current.push(inherited);
        }
    }
    current.retain(|span| span.is_held);
    current
}

/// The spans in which the strands of a scope begin. They are held.
struct InheritedSpans(Vec<EnteredSpan>);

impl InheritedContext for InheritedSpans {
    fn attach(&self) -> Box<dyn Any> {
        let mut inside = Inside(Vec::new());
        for EnteredSpan { subscriber, id, .. } in &self.0 {
            subscriber.enter(id);
            note_enter(subscriber, id);
            inside.0.push((Arc::clone(subscriber), id.clone()));
        }
        Box::new(inside)
    }
}

/// The inherited spans of a strand, which exits them when it ends.
struct Inside(Vec<(Inner, Id)>);

impl Drop for Inside {
    fn drop(&mut self) {
        for (subscriber, id) in self.0.iter().rev() {
            is_quiet(|| subscriber.exit(id));
            note_exit(subscriber, id);
        }
    }
}
