//! Formats that are read from and written to Ramie's sockets and pipes.

mod archives;
mod values;

use crate::harness::Section;

pub(super) fn sections() -> impl Iterator<Item = Section> {
    archives::SECTIONS.into_iter().chain(values::SECTIONS)
}
