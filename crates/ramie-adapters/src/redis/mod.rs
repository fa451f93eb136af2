//! The crate redis over streams of Ramie.
//!
//! ```no_run
//! use ramie_adapters::redis::{RedisConnection, RedisManager};
//! use ramie_pool::Pool;
//! use redis::Commands;
//!
//! ramie::run(|| {
//!     let mut connection = RedisConnection::connect("redis://127.0.0.1/")?;
//!     let _: () = connection.set("key", 42)?;
//!
//!     let pool = Pool::builder().max_size(16).build(RedisManager::new("redis://127.0.0.1/")?);
//!     let value: i64 = pool.get().expect("a connection").get("key")?;
//!     assert_eq!(value, 42);
//!     Ok::<(), redis::RedisError>(())
//! })?;
//! # Ok::<(), redis::RedisError>(())
//! ```

mod connection;
mod manager;
mod pub_sub;

pub use self::{connection::RedisConnection, manager::RedisManager, pub_sub::RedisPubSub};
