//! Each stable item of std that can block, or that depends on threads, beside its twin.
//!
//! A row names items of a module of std and describes the item at the same path below `ramie`:
//!
//! | | |
//! |---|---|
//! | same | a type, trait or function of this crate with std's signature and meaning |
//! | differs | the same, except for the difference in the row |
//! | std's | std's own item, which cannot block |
//! | absent | missing, for the reason in the row |
//!
//! `A::{b, c}` are functions and fields of `A`; `T: A + B` are traits of `T`. Deprecated items of
//! std are included, and are deprecated here as well. The list leaves out items that are unstable
//! in Rust 1.95, and std's other modules, which are all re-exported unchanged, so that a file with
//! `use ramie as std` finds them. (The exceptions are `std::primitive` and the path `std::panic!`;
//! the macro is in the prelude.)
//!
//! These differences hold for every call that waits, so the rows do not repeat them: it parks the
//! strand instead of the thread; it never fails with `ErrorKind::Interrupted`; inside
//! [`no_switch`](crate::no_switch()) it panics; and in a destructor that runs during a panic on a
//! fiber it does not suspend, as the documentation of its module describes.
//!
//! Items of std's other modules may still block: `Path::exists` and `Path::metadata` ask the file
//! system and block the worker meanwhile. [`fs`](crate::fs) does not.
//!
//! The tests of this crate compile each row twice, with std and with Ramie under its name, and
//! compare the list with std's documentation.
//!
//! # Macros
//!
#![doc = include_str!("../docs/parity/macros.md")]
//!
//! # `std::thread`
//!
#![doc = include_str!("../docs/parity/thread.md")]
//!
//! # `std::net`
//!
#![doc = include_str!("../docs/parity/net.md")]
//!
//! # `std::os::unix::net`
//!
#![doc = include_str!("../docs/parity/os_unix_net.md")]
//!
//! # `std::os::linux::net`
//!
#![doc = include_str!("../docs/parity/os_linux_net.md")]
//!
//! # `std::fs`
//!
#![doc = include_str!("../docs/parity/fs.md")]
//!
//! # `std::os::unix::fs`
//!
#![doc = include_str!("../docs/parity/os_unix_fs.md")]
//!
//! # `std::os::linux::fs`
//!
#![doc = include_str!("../docs/parity/os_linux_fs.md")]
//!
//! # `std::io`
//!
#![doc = include_str!("../docs/parity/io.md")]
//!
//! # `std::io::prelude`
//!
#![doc = include_str!("../docs/parity/io_prelude.md")]
//!
//! # `std::process`
//!
#![doc = include_str!("../docs/parity/process.md")]
//!
//! # `std::os::unix::process`
//!
#![doc = include_str!("../docs/parity/os_unix_process.md")]
//!
//! # `std::sync`
//!
#![doc = include_str!("../docs/parity/sync.md")]
//!
//! # `std::sync::mpsc`
//!
#![doc = include_str!("../docs/parity/sync_mpsc.md")]
//!
//! # `std::sync::atomic`
//!
#![doc = include_str!("../docs/parity/sync_atomic.md")]
//!
//! # `std::time`
//!
#![doc = include_str!("../docs/parity/time.md")]
//!
//! # `std::os::fd`
//!
#![doc = include_str!("../docs/parity/os_fd.md")]
//!
//! # `std::os::raw`
//!
#![doc = include_str!("../docs/parity/os_raw.md")]
//!
//! # `std::os::unix::ffi`
//!
#![doc = include_str!("../docs/parity/os_unix_ffi.md")]
//!
//! # `std::os::unix::prelude`
//!
#![doc = include_str!("../docs/parity/os_unix_prelude.md")]
//!
//! # `std::os::unix::thread`
//!
#![doc = include_str!("../docs/parity/os_unix_thread.md")]
