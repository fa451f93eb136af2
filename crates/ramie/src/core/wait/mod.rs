//! Waits: of one strand ([`park`], [`plain`]), of one strand for one event ([`completion`]), of
//! many strands in order ([`parking_lot`]), and of futures ([`wake`]).

pub(crate) mod completion;
pub(crate) mod park;
pub(crate) mod parking_lot;
pub(crate) mod plain;
mod sleep;
mod waker;

pub(crate) use self::{sleep::sleep_to, waker::wake};
