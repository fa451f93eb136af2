//! The channel and its select, with their models: what they call is the channel's own.

mod arm;
mod core;
mod error;
pub(crate) mod models;
mod random;
mod receiver;
mod select;
pub(crate) mod select_models;
mod sender;
mod timed;
mod waiters;

use self::{core::Core, receiver::Receiver, sender::Sender};
use super::primitive::Arc;

fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(capacity));
    (Sender::new(Arc::clone(&core)), Receiver::new(core))
}
