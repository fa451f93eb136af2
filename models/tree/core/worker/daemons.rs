//! Stand-in for strands that a runtime does not wait for; no model has one.

#[derive(Default)]
pub(crate) struct Daemons {}

impl Daemons {
    pub(super) fn count(&self) -> usize {
        0
    }

    pub(super) fn cancel_all(&self) {}
}
