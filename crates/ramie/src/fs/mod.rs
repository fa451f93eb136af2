//! Twins of `std::fs`: files and directories, with disk work that never holds up the worker.
//!
//! Signatures, defaults and errors are std's; types that cannot block ([`Metadata`],
//! [`Permissions`], …) are std's own. How a call of a fiber is done:
//!
//! | call | where |
//! |---|---|
//! | reads of what the kernel has cached | at once, 64 KiB at a time, with other fibers in between |
//! | reads of what it has not | the ring; on the polling driver the blocking pool |
//! | writes | at once where the file system can, else the ring; on the polling driver the pool |
//! | `sync_all`, `sync_data` | the ring; on the polling driver the pool |
//! | opening what exists | the ring; on the polling driver the pool |
//! | `metadata` of what is cached and local | at once |
//! | all else: creating, renaming, linking, removing, listing, permissions, whole-file writes, copies | the pool, one job a call |
//!
//! The ring has ops for some of the last row, too, but the kernel hands each to a thread of its
//! own, at most a few at a time, which takes longer than a job of the pool (31 us against 19).
//!
//! What differs from std:
//! - No read or write fails with `ErrorKind::Interrupted`.
//! - [`OpenOptions`], [`DirBuilder`], [`DirEntry`] and [`ReadDir`] are types of this crate.
//! - `Arc<File>` is not [`Read`](std::io::Read): only std may say that of its `Arc`. `&*file` is.
//! - Reads and writes at the current position of one `File` and its `try_clone`s go one after
//!   another, each whole. (A duplicate made elsewhere shares the position, but not the order.)
//!
//! # Outside a fiber
//! Every call is std's, made right here: the thread may block. So it is in a destructor that runs
//! during a panic.

mod dir;
mod file;
mod lock;
mod open;
pub(crate) mod path;
pub(crate) mod route;
mod traits;
mod transfer;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

#[allow(deprecated)]
pub use self::path::{
    canonicalize, copy, create_dir, create_dir_all, exists, hard_link, metadata, read, read_link,
    read_to_string, remove_dir, remove_dir_all, remove_file, rename, set_permissions, soft_link,
    symlink_metadata, write,
};
#[doc(hidden)]
pub use self::route::routes;
pub use self::{
    dir::{DirBuilder, DirEntry, ReadDir, read_dir},
    file::File,
    open::OpenOptions,
};
