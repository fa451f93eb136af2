//! The items of `std::future`, and calls by which a strand waits for a future or a future for a
//! strand.
//!
//! - [`block_on`] waits for a future on a fiber or a thread. No executor is needed. For futures
//!   that need one, such as tokio's timers and sockets, use the crate `ramie-futures`.
//! - A [`JoinHandle`](crate::fiber::JoinHandle), a
//!   [`ScopedJoinHandle`](crate::fiber::ScopedJoinHandle), the receivers of
//!   [`channel`](crate::channel) and of [`oneshot`](crate::sync::oneshot) can be awaited by async
//!   code, on any executor; [`send_async`](crate::channel::Sender::send_async) sends a value to a
//!   channel from async code.

mod block_on;
mod join;
mod receive;
mod send;

#[doc(no_inline)]
pub use std::future::*;

pub use self::{
    block_on::{block_on, block_on_or_cancelled},
    join::{JoinFuture, ScopedJoinFuture},
    receive::{OneshotFuture, RecvFuture},
    send::SendFuture,
};
