//! Ramie's fibers and other people's async code, side by side.
//!
//! - [`block_on_with`] waits on a fiber for a future that needs tokio's timers or sockets.
//! - [`Io`] makes a stream of Ramie's what hyper, tokio and `futures` read from and write to.
//! - [`Fibers`] and [`LocalFibers`] run hyper's tasks, each on a fiber.
//!
//! So hyper's servers and clients, HTTP/2 as well, run on fibers, without tokio's runtime: see
//! `crates/ramie-futures/examples/hyper.rs`. What needs no more than an executor is in
//! [`ramie::future`].

#![deny(unsafe_code)]

mod context;
mod executor;
mod futures_stream;
mod hyper_stream;
mod io;
mod readiness;
mod tokio_stream;

pub use context::{block_on_with, with_context};
pub use executor::{Fibers, LocalFibers};
pub use io::{Io, Socket};
