//! std's own unit tests, each run on fibers of one worker, on fibers of two and on threads.
//!
//! `build.rs` takes them from std's sources, in the folder that `STD_SOURCES` names, and writes
//! them with Ramie's paths into cargo's target folder.
#![cfg(test)]
#![feature(read_buf, core_io_borrowed_buf, once_cell_try, lock_value_accessors)]
#![feature(
    thread_sleep_until,
    duration_constants,
    unix_socket_ancillary_data,
    assert_matches,
    io_error_uncategorized
)]
#![feature(unix_file_vectored_at, read_buf_at)]
#![allow(unused, deprecated, stable_features, clippy::all)]

use ramie::{Runtime, Strands};

/// Items of std's private modules that its tests import.
mod helpers {
    use std::hash::{BuildHasher, Hash, Hasher, RandomState};
    use std::path::{Path, PathBuf};

    use rand::{RngCore, SeedableRng};

    pub(crate) fn raw(of: &impl std::os::fd::AsRawFd) -> i32 {
        of.as_raw_fd()
    }

    pub(crate) fn test_rng() -> rand_xorshift::XorShiftRng {
        let seed = RandomState::new().hash_one(std::process::id());
        rand_xorshift::XorShiftRng::seed_from_u64(seed)
    }

    pub(crate) struct TempDir(PathBuf);

    impl TempDir {
        pub(crate) fn join(&self, path: &str) -> PathBuf {
            self.0.join(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            let removed = std::fs::remove_dir_all(&self.0);
            assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
        }
    }

    pub(crate) fn tmpdir() -> TempDir {
        let path = std::env::temp_dir().join(format!("std-tests-{}", test_rng().next_u64()));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }
}

#[track_caller]
fn result_unwrap<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap()
}

/// std has its locks with poisoning and, unstable, without it. Ramie has the former.
macro_rules! nonpoison_and_poison_unwrap_test {
    (name: $name:ident, test_body: { $($body:tt)* }) => {
        pub(super) fn $name() {
            use crate::result_unwrap as maybe_unwrap;
            use ::ramie::sync as locks;
            $($body)*
        }
    };
}
use nonpoison_and_poison_unwrap_test;

fn on_fibers<R>(workers: usize, test: impl FnOnce() -> R) -> R {
    Runtime::builder().workers(workers).strands(Strands::Fibers).build().unwrap().run(test)
}

fn on_threads<R>(test: impl FnOnce() -> R) -> R {
    Runtime::builder().strands(Strands::Threads).build().unwrap().run(test)
}

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
