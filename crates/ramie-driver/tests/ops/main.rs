//! Ops and calls, one kind after the other, on each backend.

#[path = "../support/mod.rs"]
mod support;

mod bundle;
mod calls;
mod cancel;
mod ends;
mod files;
mod multishot;
mod registration;
mod single;
