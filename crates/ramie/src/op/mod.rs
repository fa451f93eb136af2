//! One op of the calling strand: performed by its driver ([`perform`]), repeatedly by one multishot
//! op of the driver ([`multishot`]), or as a call that is made at once, through the ring or on the
//! blocking pool ([`route`], [`call`], [`blocking`]).
//!
//! This layer names the core and nothing above it.

pub(crate) mod blocking;
pub(crate) mod call;
pub(crate) mod fixed_file;
pub(crate) mod forward;
pub(crate) mod inboxes;
pub(crate) mod multishot;
mod perform;
pub(crate) mod readiness;
pub(crate) mod retry;
pub(crate) mod route;
pub(crate) mod whole;

pub use self::blocking::blocking;
pub(crate) use self::{
    blocking::blocking_io,
    perform::{OpError, UNWINDING_LIMIT, own_fd, request, request_frame},
};
