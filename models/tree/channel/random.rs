//! The arm at which a select begins: always the first one, so that a run can be repeated.

pub(super) fn random_below(_: usize) -> usize {
    0
}
