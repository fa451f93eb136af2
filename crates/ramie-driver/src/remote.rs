//! Notices of threads to a driver about descriptors.

use std::os::fd::RawFd;
use std::sync::Arc;

use crate::sys::EpollSet;

/// Lets any thread notify a driver that a descriptor is about to be closed.
#[derive(Clone, Debug)]
pub struct RemoteHandle(pub(crate) Option<Arc<EpollSet>>);

impl RemoteHandle {
    /// Removes registrations of the driver for `fd`. Call it before close(2).
    ///
    /// It matters only if a duplicate keeps the open file alive: the registration then stays
    /// behind, switched off, as long as the duplicate. It can never deliver anything, so leaving
    /// this out costs a little kernel memory and nothing else. A ring needs nothing.
    pub fn deregister(&self, fd: RawFd) {
        if let Some(set) = &self.0 {
            set.forget(fd);
        }
    }
}
