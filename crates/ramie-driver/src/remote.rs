//! Notices from other threads to a driver about descriptors.

use std::os::fd::RawFd;
use std::sync::Arc;

use crate::sys::EpollSet;

/// Lets any thread notify a driver that a descriptor is about to be closed.
#[derive(Clone, Debug)]
pub struct RemoteHandle(pub(crate) Option<Arc<EpollSet>>);

impl RemoteHandle {
    /// Removes registrations of the driver for `fd`. Call it before close(2).
    ///
    /// This matters only if a duplicate keeps the open file alive: the registration then stays,
    /// disarmed, as long as the duplicate. It never delivers anything, so omitting this call costs
    /// only a little kernel memory. A ring does not need it.
    pub fn deregister(&self, fd: RawFd) {
        if let Some(set) = &self.0 {
            set.forget(fd);
        }
    }
}
