//! Each stable item of std that can block, or that knows of threads, beside its twin.
//!
//! A line names items of std's module and says what is at the same path below `ramie`:
//!
//! | | |
//! |---|---|
//! | same | a type, trait or function of this crate with std's signature and meaning |
//! | differs | the same, but for what the line says |
//! | std's | std's own, which cannot block: the very same type, trait or function |
//! | absent | not there, for the reason that the line gives |
//!
//! `A::{b, c}` are functions and fields of `A`; `T: A + B` are traits of `T`. What std has
//! deprecated is there, too, and deprecated. What is not stable in Rust 1.95 is not listed, nor is
//! what stands in std's other modules, all of which are here as they are: a file that says `use
//! ramie as std` finds them. (The exceptions are `std::primitive` and the path `std::panic!`; the
//! macro is in the prelude.)
//!
//! Of all that waits here, and so not said in each line: it parks the strand, not the thread; it
//! never fails with `ErrorKind::Interrupted`; inside [`no_switch`](crate::no_switch()) it panics;
//! in a destructor that runs during a panic on a fiber it does not suspend, as the modules' own
//! documentation says.
//!
//! What std's other modules do is std's: a `Path` that is asked whether it exists, or for its
//! metadata, asks the file system and holds up the worker meanwhile. [`fs`](crate::fs) does not.
//!
//! The tests of this crate compile each line twice, with std and with Ramie under its name, and
//! hold the list against std's documentation.
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
