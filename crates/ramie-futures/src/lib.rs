//! Ramie's fibers together with async libraries.
//!
//! - [`block_on_with`] waits on a fiber for a future that needs tokio's timers or sockets.
//! - [`Io`] lets hyper, tokio and `futures` read from and write to a Ramie stream.
//! - [`Fibers`] and [`LocalFibers`] run hyper's tasks, each on a fiber.
//!
//! So hyper's servers and clients run on fibers, HTTP/2 included, without tokio's runtime: see
//! `crates/ramie-futures/examples/hyper.rs`. For a future that needs only an executor, see
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
