//! Errors of the creation of stacks.

use std::{error, fmt, io};

use rustix::io::Errno;

use super::StackSize;

/// The reason why a stack could not be created, with the remedy.
///
/// It allocates nothing, because memory may be exhausted.
#[derive(Clone, Copy, Debug)]
pub struct StackError {
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Size { bytes: usize },
    Map { bytes: usize, errno: Errno },
    Bookkeeping,
    Chunks { count: usize },
    GuardLimit { guards: usize, map_limit: usize },
    Guard { errno: Errno },
}

impl StackError {
    pub(crate) fn size(bytes: usize) -> Self {
        StackError { kind: Kind::Size { bytes } }
    }

    pub(crate) fn map(bytes: usize, errno: Errno) -> Self {
        StackError { kind: Kind::Map { bytes, errno } }
    }

    pub(crate) fn bookkeeping() -> Self {
        StackError { kind: Kind::Bookkeeping }
    }

    pub(crate) fn chunks(count: usize) -> Self {
        StackError { kind: Kind::Chunks { count } }
    }

    pub(crate) fn guard_limit(guards: usize, map_limit: usize) -> Self {
        StackError { kind: Kind::GuardLimit { guards, map_limit } }
    }

    pub(crate) fn guard(errno: Errno) -> Self {
        StackError { kind: Kind::Guard { errno } }
    }

    /// Returns whether the requested size is out of range, which is the caller's fault.
    #[must_use]
    pub fn is_bad_size(&self) -> bool {
        matches!(self.kind, Kind::Size { .. })
    }

    /// Returns whether memory, address space or room for bookkeeping is exhausted.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.kind, Kind::Map { .. } | Kind::Bookkeeping | Kind::Chunks { .. })
    }

    /// Returns whether a limit of the system prevented a further guard.
    #[must_use]
    pub fn is_guard_limit(&self) -> bool {
        matches!(self.kind, Kind::GuardLimit { .. } | Kind::Guard { .. })
    }

    /// Returns the error number of the failed system call, if there was one.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self.kind {
            Kind::Map { errno, .. } | Kind::Guard { errno } => Some(errno.raw_os_error()),
            _ => None,
        }
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Size { bytes } => write!(
                out,
                "invalid stack size of {bytes} bytes: expected between {} and {} \
                 bytes",
                StackSize::MIN_BYTES,
                StackSize::MAX_BYTES
            ),
            Kind::Map { bytes, errno } => write!(
                out,
                "cannot map {bytes} bytes of address space for stacks (errno {}): the process has \
                 reached a memory limit; raise `ulimit -v` (or `ulimit -l`, or set \
                 vm.overcommit_memory=0), use smaller stacks, or keep fewer alive",
                errno.raw_os_error()
            ),
            Kind::Bookkeeping => out.write_str(
                "no memory for the bookkeeping of one more stack: use smaller stacks, or keep \
                 fewer alive",
            ),
            Kind::Chunks { count } => write!(
                out,
                "cannot map more than {count} chunks of stacks: use fewer different stack sizes, \
                 or keep fewer stacks alive"
            ),
            Kind::GuardLimit { guards, map_limit } => write!(
                out,
                "{guards} stacks have guards made by mprotect, each of which takes two mappings; \
                 the limit is 45 % of vm.max_map_count ({map_limit}): use Linux 6.13 or later, \
                 where guards take none, or raise it with `sysctl -w vm.max_map_count=N`"
            ),
            Kind::Guard { errno } => write!(
                out,
                "cannot set the guard of a stack (errno {}): most likely the process has reached \
                 vm.max_map_count; use Linux 6.13 or later, or raise it with `sysctl -w \
                 vm.max_map_count=N`",
                errno.raw_os_error()
            ),
        }
    }
}

impl error::Error for StackError {}

impl From<StackError> for io::Error {
    fn from(error: StackError) -> Self {
        let kind = match error.kind {
            Kind::Size { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::OutOfMemory,
        };
        io::Error::new(kind, error)
    }
}
