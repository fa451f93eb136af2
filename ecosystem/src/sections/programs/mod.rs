//! What programs do besides waiting for the network: compute, log, and use threads.

mod computing;
mod diagnosis;
mod threads;

use crate::harness::Section;

pub(super) fn sections() -> impl Iterator<Item = Section> {
    computing::SECTIONS.into_iter().chain(diagnosis::SECTIONS).chain(threads::SECTIONS)
}
