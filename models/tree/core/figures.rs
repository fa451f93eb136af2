//! Figures that nobody reads: no protocol depends on them.

/// A count that is not kept.
#[derive(Default)]
pub(crate) struct Figure;

impl Figure {
    pub(crate) fn add_one(&self) {}
}

#[derive(Default)]
pub(crate) struct WorkerRecord {
    pub(crate) parks: Figure,
    pub(crate) spawned: Figure,
    pub(crate) ended: Figure,
}

#[derive(Default)]
pub(crate) struct Recorded(());

impl Recorded {
    pub(crate) fn add(&mut self, _record: &WorkerRecord) {}
}
