//! Figures that nobody reads: no protocol depends on them.

/// A count that is not kept.
#[derive(Default)]
pub(crate) struct Figure;

impl Figure {
    pub(crate) fn add_one(&self) {}

    pub(crate) fn get(&self) -> u64 {
        0
    }
}

#[derive(Default)]
pub(crate) struct WorkerRecord {
    pub(crate) parks: Figure,
    pub(crate) spawned: Figure,
    pub(crate) ended: Figure,
}

impl WorkerRecord {
    pub(crate) fn clear_levels(&self) {}
}

#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) ended: u64,
}

impl Recorded {
    pub(crate) fn add(&mut self, _record: &WorkerRecord) {}
}
