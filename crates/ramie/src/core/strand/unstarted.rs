//! The strands that were spawned and have not started, found by their headers.

use std::panic::Location;

use super::{FiberId, header_at, slab::headers_in_use};

/// Shows each strand that has not started to `visit`, with the location of its spawn. Strands that
/// are spawned or start meanwhile may be left out, or shown although they have started.
pub(crate) fn visit_unstarted(mut visit: impl FnMut(FiberId, &'static Location<'static>)) {
    for index in headers_in_use() {
        if let Some((id, location)) = header_at(index).unstarted() {
            visit(id, location);
        }
    }
}
