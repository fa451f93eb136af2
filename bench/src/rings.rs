//! The runtimes of monoio and compio, with those flags of Ramie's rings that they can set: one
//! thread submits, and the kernel completes ops when that thread enters it to wait.

use std::io;

use ::compio::{driver::ProactorBuilder, runtime};
use ::monoio::{IoUringDriver, RuntimeBuilder};

pub fn monoio() -> io::Result<::monoio::Runtime<IoUringDriver>> {
    let mut ring = monoio_uring::IoUring::builder();
    ring.setup_submit_all().setup_single_issuer().setup_defer_taskrun();
    RuntimeBuilder::<IoUringDriver>::new().uring_builder(ring).build()
}

pub fn compio() -> io::Result<runtime::Runtime> {
    let mut ring = ProactorBuilder::new();
    ring.single_issuer(true).defer_taskrun(true).taskrun_flag(true);
    runtime::Runtime::builder().with_proactor(ring).build()
}
