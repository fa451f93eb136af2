//! A driver as a whole: the choice of the backend, wakes, submitters, and its end.

#[path = "../support/mod.rs"]
mod support;

mod caps;
mod hazards;
mod random;
mod submitter;
mod teardown;
mod wake;
