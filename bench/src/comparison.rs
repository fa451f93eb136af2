//! The outcome of a comparison with programs, some of which may be missing.

/// The folder of the programs that `peers/build` makes.
pub const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/target");

/// The outcome of a comparison.
#[derive(PartialEq, Eq)]
pub enum Comparison {
    AllMet,
    Missed,
    /// Programs are missing. All targets of the servers that were measured are met.
    Incomplete,
}
