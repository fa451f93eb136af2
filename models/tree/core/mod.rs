//! How strands run and wait: shipped modules and stand-ins.

pub(crate) mod cancel;
pub(crate) mod figures;
pub(crate) mod primitive;
pub(crate) mod spin_lock;
pub(crate) mod strand;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod wait;
pub(crate) mod worker;
