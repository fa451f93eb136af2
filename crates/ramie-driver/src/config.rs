//! The size of a driver, and the features that it does not use.

use crate::feature::FeatureSet;
use crate::submitter::Submitter;

/// The size and the options of a driver.
#[derive(Clone, Debug)]
pub struct Config {
    /// Entries of the submission queue, 1 to 32,768, rounded up to a power of two. It bounds a
    /// batch, not the ops in flight.
    pub entries: u32,
    /// Entries of the completion queue; raised to four times `entries` if below.
    pub cq_entries: u32,
    /// Whether busy streams take an index in the ring's file table ([`FixedFile`]). Not for a
    /// thread that may not use its driver for long, because it must release the indices of files
    /// that other threads close.
    ///
    /// [`FixedFile`]: crate::FixedFile
    pub fixed_files: bool,
    /// Features that are not used although the kernel has them, besides those that `RAMIE_CAPS`
    /// masks: for tests of kernels that lack them ([`Profile`](crate::Profile)).
    pub masked: FeatureSet,
    /// The thread that submits the ops of a busy worker. It is always the worker with the poll
    /// backend, and if the kernel refuses another submitter; [`Caps::submitter`](crate::Caps) is
    /// the one in use.
    pub submitter: Submitter,
}

impl Default for Config {
    /// 256 and 4,096 entries: 80 KiB, for a worker.
    fn default() -> Self {
        let (entries, cq_entries) = (256, 4096);
        Config { entries, cq_entries, fixed_files: true, ..Config::small() }
    }
}

impl Config {
    /// 8 and 32 entries: for a thread that waits for one op at a time.
    pub fn small() -> Self {
        let (entries, cq_entries, masked) = (8, 32, FeatureSet::EMPTY);
        Config { entries, cq_entries, fixed_files: false, masked, submitter: Submitter::Worker }
    }
}
