//! Empty, because the strands of a model are threads.

pub(crate) struct JobTable;
