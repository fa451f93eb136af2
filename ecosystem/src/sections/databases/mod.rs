//! Clients of databases.

mod embedded;
mod redis;
mod sql;

use crate::harness::Section;

pub(super) fn sections() -> impl Iterator<Item = Section> {
    [redis::SECTION].into_iter().chain(sql::SECTIONS).chain(embedded::SECTIONS)
}
