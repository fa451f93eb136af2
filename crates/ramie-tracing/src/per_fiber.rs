//! A subscriber around another one, which notes which spans a strand has entered.
#![allow(unsafe_code)]

use std::{any::TypeId, fmt, ptr, sync::Arc};

use tracing_core::{
    Dispatch, Event, LevelFilter, Metadata, Subscriber,
    span::{Attributes, Current, Id, Record},
    subscriber::Interest,
};

use crate::entered::{self, Inner};

/// A subscriber that lets each strand have its own entered spans; see the [crate's docs](crate).
///
/// It passes every call on to the subscriber that it wraps, which decides about filters and output.
/// Make it the outermost one, the one that becomes the default, around all layers. Code that looks
/// for a layer by its type, as `tracing-opentelemetry` does, finds those inside.
///
/// # Examples
/// ```standalone_crate
/// use ramie_tracing::PerFiber;
/// use tracing_subscriber::util::SubscriberInitExt;
///
/// PerFiber::new(tracing_subscriber::fmt().finish()).init();
/// ```
pub struct PerFiber {
    inner: Inner,
}

impl PerFiber {
    /// Wraps a subscriber.
    #[must_use]
    pub fn new<S: Subscriber + Send + Sync>(subscriber: S) -> Self {
        PerFiber { inner: Arc::new(subscriber) }
    }
}

impl fmt::Debug for PerFiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerFiber").finish_non_exhaustive()
    }
}

impl Subscriber for PerFiber {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.inner.on_register_dispatch(dispatch);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.inner.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.inner.max_level_hint()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.inner.new_span(attributes)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.inner.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.inner.record_follows_from(span, follows);
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.inner.event_enabled(event)
    }

    fn event(&self, event: &Event<'_>) {
        self.inner.event(event);
    }

    fn enter(&self, span: &Id) {
        self.inner.enter(span);
        entered::note_enter(&self.inner, span);
    }

    fn exit(&self, span: &Id) {
        self.inner.exit(span);
        entered::note_exit(&self.inner, span);
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.inner.clone_span(span)
    }

    fn try_close(&self, span: Id) -> bool {
        let is_closed = self.inner.try_close(span.clone());
        if is_closed {
            entered::note_close(&self.inner, &span);
        }
        is_closed
    }

    fn current_span(&self) -> Current {
        self.inner.current_span()
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(ptr::from_ref(self).cast());
        }
        // SAFETY: the caller's promise; `self` keeps the inner subscriber and never replaces it, so
        // a pointer to it is valid for as long as `self` is.
        unsafe { self.inner.downcast_raw(id) }
    }
}
