//! Stand-in for spreading: the workers of the models keep the closures that they started.

#[derive(Default)]
pub(super) struct Spreading {}
