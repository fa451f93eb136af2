//! A stand-in: no protocol depends on the notices of strands.

/// Never made.
#[derive(Debug)]
pub enum Notices {}

pub fn notices() -> Notices {
    unreachable!("no model asks")
}

pub(crate) fn note_notice() {}
