//! Twins of `std::fs`: files and directories, whose disk work never blocks the worker.
//!
//! Signatures, defaults and errors are std's; types that cannot block ([`Permissions`],
//! [`FileType`], …) are std's own. The table shows where a fiber's call is made: at once on the
//! worker, through the ring, or on a thread of the blocking pool.
//!
//! | call | where |
//! |---|---|
//! | reads of cached bytes | at once, 64 KiB at a time; other fibers run in between |
//! | other reads | the ring; on the polling driver the blocking pool |
//! | writes | at once if the file system can, otherwise the ring; on the polling driver the pool |
//! | `sync_all`, `sync_data` | the ring; on the polling driver the pool |
//! | opening, creating, renaming, linking, removing | the ring; on the polling driver the pool, except for opening cached local files |
//! | `metadata` | at once if the file is local and its attributes are cached; otherwise the pool |
//! | other calls: listing, permissions, sizes, locks, whole-file writes, copies | the pool, one job per call |
//!
//! Beyond std, a [`Watcher`] reports changes of a file, a folder or a tree of folders.
//!
//! The ring adds about 8 us to a call, the pool about 27 us.
//!
//! Differences from std:
//! - No read or write fails with `ErrorKind::Interrupted`.
//! - The times of [`Metadata`] and [`FileTimes`] are [`SystemTime`](crate::time::SystemTime)s of
//!   this crate, which convert from and into std's.
//! - `Arc<File>` is not [`Read`](std::io::Read): only std may implement traits for its `Arc`.
//!   `&*file` is `Read`.
//! - Reads and writes at the current position of a `File` and its `try_clone`s never overlap: each
//!   one ends before the next begins. (A duplicate of the descriptor made in another way shares the
//!   position, but its calls may overlap with these.)
//!
//! # Cancellation
//! A call that the kernel has begun is completed, because disk I/O cannot be interrupted. If a
//! network file system does not answer, the fiber waits until the call ends, and so does the scope
//! around the fiber.
//!
//! # Outside a fiber
//! std makes every call, on the calling thread, which may block. The same applies on a fiber in a
//! destructor that runs during a panic.

mod dir;
mod file;
mod lock;
mod metadata;
mod open;
pub(crate) mod path;
mod traits;
mod transfer;
mod watcher;

#[doc(no_inline)]
pub use std::fs::{FileType, Permissions, TryLockError};

#[allow(deprecated)]
pub use self::path::{
    canonicalize, copy, create_dir, create_dir_all, exists, hard_link, metadata, read, read_link,
    read_to_string, remove_dir, remove_dir_all, remove_file, rename, set_permissions, soft_link,
    symlink_metadata, write,
};
pub use self::{
    dir::{DirBuilder, DirEntry, ReadDir, read_dir},
    file::File,
    metadata::{FileTimes, Metadata},
    open::OpenOptions,
    watcher::{Change, ChangeKind, Watcher},
};
#[doc(hidden)]
pub use crate::op::route::routes;
