//! The channel and its select, with their models; they call shipped code of the channel only.

mod arm;
mod core;
mod error;
mod futures;
pub(crate) mod models;
mod random;
mod receiver;
mod remote_hint;
mod select;
pub(crate) mod select_models;
mod sender;
mod state;
mod timed;
mod waiters;

use self::{core::Core, receiver::Receiver, sender::Sender};
use crate::core::primitive::Arc;

pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(capacity));
    (Sender::new(Arc::clone(&core)), Receiver::new(core))
}

/// Receives by a select of one arm; returns whether there was a value.
pub(crate) fn select_receive<T>(receiver: &Receiver<T>) -> bool {
    let mut arm = arm::RecvArm::new(receiver);
    select::select_by(&mut [arm.arm()]) && arm.is_chosen() && arm.result().is_ok()
}
