//! The events of a worker: the shipped buffer. The rest of recordings has no protocol that a model
//! could check.

mod buffer;

pub(crate) use self::buffer::{EventWords, TraceBuffer};
