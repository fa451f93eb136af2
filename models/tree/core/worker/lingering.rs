//! Stand-in for the report of fibers that keep `run` waiting; no model has one.

pub(crate) struct Lingering;

impl Lingering {
    pub(super) fn new() -> Self {
        Lingering
    }

    pub(super) fn begin(&self, _: usize) {}
}
