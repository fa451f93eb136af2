//! A wait until an instant.

use super::park::{self, Refused, WaitKind, WaitRecord};
use crate::core::{cancel, strand::Wake, time::Deadline};

static SLEEP: WaitKind = WaitKind::new("a sleep");

/// Suspends the strand until `deadline`. In a cancelled scope it returns early, and each repeated
/// early return takes longer.
#[track_caller]
pub(crate) fn sleep_to(deadline: Deadline) {
    let record = WaitRecord::new(&SLEEP).until(deadline).cancellable();
    match sleep_on(&record) {
        Err(Refused::Cancelled) => cancel::back_off(),
        // A strand that unwinds does not sleep.
        Ok(()) | Err(Refused::Unwinding) => {}
    }
}

fn sleep_on(record: &WaitRecord) -> Result<(), Refused> {
    while !record.deadline.has_passed() {
        if park::park(record)? == Wake::Cancelled {
            return Err(Refused::Cancelled);
        }
    }
    Ok(())
}
