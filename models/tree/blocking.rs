//! Nothing: no model has a blocking pool.

pub(crate) struct Pool;
