//! Children, processes under a supervisor, and the examples as programs.

#[path = "../common/mod.rs"]
mod common;

mod children;
mod examples;
mod prefork;
