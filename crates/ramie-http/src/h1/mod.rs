//! HTTP/1.1 as bytes, without I/O: requests and their bodies in, heads of responses out.

pub(crate) mod authority;
pub(crate) mod chunked;
mod classes;
pub(crate) mod date;
pub(crate) mod framing;
#[cfg(test)]
mod fuzz;
pub(crate) mod head;
pub(crate) mod response_head;
pub(crate) mod target;
