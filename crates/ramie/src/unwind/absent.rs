//! Stand-ins for a build that makes no backtraces.

use std::sync::Arc;

use super::BacktraceFrame;
use crate::core::worker::StackCopy;

pub(super) fn walk(_: &StackCopy) -> Vec<usize> {
    Vec::new()
}

pub(super) fn frames_at(_: usize) -> Arc<[BacktraceFrame]> {
    Arc::default()
}
