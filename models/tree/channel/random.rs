//! Where a select begins: always at its first arm, so that a run can be repeated.

pub(super) fn random_below(_: usize) -> usize {
    0
}
