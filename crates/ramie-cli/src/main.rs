//! The `ramie` program.
fn main() {}
