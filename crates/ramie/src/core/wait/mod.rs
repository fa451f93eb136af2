//! Waits: of one strand ([`park`], [`plain`], each described by a [`record`]; a driver names the
//! strand by a [`word`]), of one strand for one event ([`completion`]), of many strands in order
//! ([`parking_lot`]), and of futures ([`wake`]).

pub(crate) mod completion;
pub(crate) mod park;
pub(crate) mod parking_lot;
pub(crate) mod plain;
pub(crate) mod record;
mod sleep;
mod waker;
pub(crate) mod word;

pub(crate) use self::{sleep::sleep_to, waker::wake};
