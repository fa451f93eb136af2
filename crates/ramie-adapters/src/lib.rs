//! Adapters with which other people's clients work on Ramie's fibers.
//!
//! | feature | module | contents |
//! |---|---|---|
//! | | [`blocking`] | [`Blocking`]: a value whose calls block, such as a connection of rusqlite, diesel or mysql, used on the blocking pool |
//! | `ureq` | `ureq` | a connector, a transport and a resolver for ureq; with `ureq-rustls` also HTTPS |
//! | `redis` | `redis` | a connection for the crate redis, with pub/sub |
//! | `tokio-postgres` | `postgres` | connections and clients of tokio-postgres |
//!
//! No feature is on by default. Each module also has a manager for the pool of [`ramie_pool`] where
//! connections can be pooled (ureq's agent has a pool of its own).
//!
//! # Cancelled calls
//! One rule holds for all connections here: if a call is cancelled, or panics, between its first
//! byte and the end of its answer, the connection is *broken*. A broken connection refuses all
//! further calls, so the late answer is never taken for that of another call, and a pool closes it.
//!
//! # The crate mysql
//! It has no adapter, because its connections own a socket of std, and the crate has no trait for
//! another stream. Use [`Blocking`] with [`BlockingManager`], or an asynchronous client beside a
//! runtime of tokio by `ramie_futures::block_on_with`.
#![forbid(unsafe_code)]

pub mod blocking;
#[cfg(feature = "tokio-postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "ureq")]
pub mod ureq;

pub use self::blocking::{Blocking, BlockingManager};
