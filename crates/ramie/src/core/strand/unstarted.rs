//! Strands found by their headers: those that were spawned and have not started, and one by its id
//! or by the text of that.

use std::panic::Location;

use super::{
    FiberId, StrandHeader, header_at,
    id::THREAD_TAG,
    slab::{headers_in_use, is_in_use},
};

/// The number of headers between two calls of `pause`; to read them takes some microseconds.
const STRIDE: usize = 1024;

/// Shows each strand that has not started to `visit`, with the location of its spawn. Strands that
/// are spawned or start meanwhile may be left out, or shown although they have started. A million
/// headers take 20 ms, so the caller gets `pause` called now and then, in which it may suspend.
pub(crate) fn visit_unstarted(
    mut pause: impl FnMut(),
    mut visit: impl FnMut(FiberId, &'static Location<'static>),
) {
    for (count, index) in headers_in_use().enumerate() {
        if count.is_multiple_of(STRIDE) {
            pause();
        }
        if let Some((id, location)) = header_at(index).unstarted() {
            visit(id, location);
        }
    }
}

/// Finds the header of a strand, unless the strand has ended and another one has the header.
pub(crate) fn find_by_id(id: FiberId) -> Option<&'static StrandHeader> {
    let header = is_in_use(id.index()).then(|| header_at(id.index()));
    header.filter(|header| header.id() == id)
}

/// Finds the id that has this text, such as `12.1`. The strand may have ended.
pub(crate) fn find_by_text(text: &str) -> Option<FiberId> {
    let (index, generation) = text.split_once('.')?;
    let (index, generation): (u32, u32) = (index.parse().ok()?, generation.parse().ok()?);
    let id = is_in_use(index).then(|| header_at(index).id())?;
    // The text does not have the bit that distinguishes threads.
    (id.generation() & !THREAD_TAG == generation).then_some(id)
}
