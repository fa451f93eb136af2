//! The cancellations that a strand has noticed, for owners of a state that an interrupted call
//! leaves unfinished.
//!
//! Each failed check for a cancellation counts on the stack of its strand. A strand of a scope also
//! marks the scope, and the mark counts as one notice of the strand that opened the scope when all
//! its strands have ended: the opener may have lent them the state. A strand that panics marks its
//! scope, too, because a join may take the panic. A stack serves one strand after another and the
//! count continues, so [`Notices`] holds the id of the strand, too.
#![allow(unsafe_code)]

use crate::core::{strand::FiberId, worker};

/// The cancellations that a strand has noticed so far; see [`notices`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notices {
    strand: FiberId,
    count: u32,
}

/// Returns a value that changes when the calling strand notices a cancellation.
///
/// A strand notices a cancellation when a call inside it reports one or returns early because of
/// one. Two values are equal if the same strand made them, and between the two calls
///
/// - no cancel point of the strand failed or returned early because of a cancellation, and
/// - no [`fiber::scope`](crate::fiber::scope) ended in the strand in which a strand had noticed a
///   cancellation, or had panicked.
///
/// The owner of a connection can thereby decide whether an exchange on it may be unfinished,
/// whichever code made the calls. A cancellation that arrives while no cancel point waits, and that
/// no call reports, changes nothing.
///
/// # Blocking
/// Never.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie::{cancel::{self, notices}, io::{Read, pipe}};
///
/// ramie::run(|| {
///     let (mut reader, _writer) = pipe().unwrap();
///     let before = notices();
///     let late = cancel::with_timeout(Duration::from_millis(1), || reader.read(&mut [0]));
///     assert!(late.is_err());
///     assert!(notices() != before);
/// });
/// ```
#[must_use]
pub fn notices() -> Notices {
    let worker = worker::current();
    let stack = worker.current_strand();
    Notices { strand: stack.header().id(), count: stack.notices.get() }
}

/// Counts a cancellation that the calling strand has noticed.
#[cold]
pub(crate) fn note_notice() {
    let worker = worker::current();
    let stack = worker.current_strand();
    stack.notices.set(stack.notices.get().wrapping_add(1));
    // SAFETY: a scope waits for its strands, and this one has not ended.
    if let Some(scope) = unsafe { stack.header().attributes.scope().as_ref() } {
        scope.note_interruption();
    }
}
