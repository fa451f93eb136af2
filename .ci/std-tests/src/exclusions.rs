//! The files of std's tests that run here, and the excluded tests with the reason for each.

/// A module's name here, the file in std's sources, and the module that `super` means there.
pub const FILES: &[(&str, &str, &str)] = &[
    ("net_test", "src/net/test.rs", ""),
    ("net_tcp", "src/net/tcp/tests.rs", "::ramie::net"),
    ("net_udp", "src/net/udp/tests.rs", "::ramie::net"),
    ("net_addr", "src/net/socket_addr/tests.rs", "::ramie::net"),
    ("unix_net", "src/os/unix/net/tests.rs", "::ramie::os::unix::net"),
    ("unix_fs", "src/os/unix/fs/tests.rs", "::ramie::os::unix::fs"),
    ("fs", "src/fs/tests.rs", "::ramie::fs"),
    ("io_pipe", "src/io/pipe/tests.rs", "::ramie::io"),
    ("process", "src/process/tests.rs", "::ramie::process"),
    ("thread", "src/thread/tests.rs", "::ramie::thread"),
    ("thread_outside", "tests/thread.rs", ""),
    ("time", "tests/time.rs", ""),
    ("barrier", "tests/sync/barrier.rs", ""),
    ("condvar", "tests/sync/condvar.rs", ""),
    ("lazy_lock", "tests/sync/lazy_lock.rs", ""),
    ("mpsc", "tests/sync/mpsc.rs", ""),
    ("mpsc_sync", "tests/sync/mpsc_sync.rs", ""),
    ("mutex", "tests/sync/mutex.rs", ""),
    ("once", "tests/sync/once.rs", ""),
    ("once_lock", "tests/sync/once_lock.rs", ""),
    ("rwlock", "tests/sync/rwlock.rs", ""),
];

const UNSTABLE: &str = "of an item that is not stable in std, so Ramie has no twin of it";

/// A file, one of its tests, and the reason for leaving the test out.
pub const EXCLUDED: &[(&str, &str, &str)] = &[
    ("net_tcp", "linger", UNSTABLE),
    ("net_tcp", "read_buf", UNSTABLE),
    ("unix_net", "test_unix_stream_peek", UNSTABLE),
    ("unix_net", "test_unix_datagram_peek", UNSTABLE),
    ("unix_net", "test_unix_datagram_peek_from", UNSTABLE),
    ("unix_net", "test_send_vectored_fds_unix_stream", UNSTABLE),
    ("unix_net", "test_send_vectored_with_ancillary_to_unix_datagram", UNSTABLE),
    ("unix_net", "test_send_vectored_with_ancillary_unix_datagram", UNSTABLE),
    ("unix_fs", "test_mkfifo", UNSTABLE),
    ("fs", "file_test_read_buf", UNSTABLE),
    ("fs", "test_dir_smoke_test", UNSTABLE),
    ("fs", "test_dir_read_file", UNSTABLE),
    ("fs", "test_fs_set_times", UNSTABLE),
    ("fs", "test_fs_set_times_on_dir", UNSTABLE),
    ("fs", "test_fs_set_times_follows_symlink", UNSTABLE),
    ("fs", "test_fs_set_times_nofollow", UNSTABLE),
    ("process", "child_stdout_read_buf", UNSTABLE),
    ("thread", "test_thread_os_id_not_equal", UNSTABLE),
    (
        "thread_outside",
        "sleep_very_long",
        "leaves a strand that sleeps for ever, for which `run` waits, as its documentation says",
    ),
    ("condvar", "nonpoison_notify_one", UNSTABLE),
    ("condvar", "nonpoison_notify_all", UNSTABLE),
    ("condvar", "nonpoison_test_mutex_arc_condvar", UNSTABLE),
    ("condvar", "nonpoison_wait_while", UNSTABLE),
    ("condvar", "nonpoison_wait_timeout_wait", UNSTABLE),
    ("condvar", "nonpoison_wait_timeout_while_wait", UNSTABLE),
    ("condvar", "nonpoison_wait_timeout_while_instant_satisfy", UNSTABLE),
    ("condvar", "nonpoison_wait_timeout_while_wake", UNSTABLE),
    ("condvar", "nonpoison_wait_timeout_wake", UNSTABLE),
    ("condvar", "nonpoison_timeout_nanoseconds", UNSTABLE),
    ("mpsc_sync", "send_timeout", UNSTABLE),
    ("time", "system_time_max_min", UNSTABLE),
    ("time", "system_time_saturating", UNSTABLE),
    ("mutex", "test_mapping_mapped_guard", UNSTABLE),
    ("mutex", "panic_while_mapping_unlocked_poison", UNSTABLE),
    ("mutex", "test_mutex_with_mut", UNSTABLE),
    ("rwlock", "test_mapped_read_guard_covariance", UNSTABLE),
    ("rwlock", "test_mapping_mapped_guard", UNSTABLE),
    ("rwlock", "panic_while_mapping_read_unlocked_no_poison", UNSTABLE),
    ("rwlock", "panic_while_mapping_write_unlocked_poison", UNSTABLE),
    ("rwlock", "nonpoison_test_rwlock_try_write", UNSTABLE),
    ("rwlock", "test_rwlock_with", UNSTABLE),
    ("rwlock", "test_rwlock_with_mut", UNSTABLE),
    ("mutex", "test_get_cloned", UNSTABLE),
    ("mutex", "test_set", UNSTABLE),
    ("mutex", "test_set_drop", UNSTABLE),
    ("mutex", "test_replace", UNSTABLE),
    ("mutex", "test_get_cloned_poison", UNSTABLE),
    ("mutex", "test_set_poison", UNSTABLE),
    ("mutex", "test_replace_poison", UNSTABLE),
    ("mutex", "test_mutex_arc_poison_mapped", UNSTABLE),
    ("rwlock", "test_get_cloned", UNSTABLE),
    ("rwlock", "test_set", UNSTABLE),
    ("rwlock", "test_replace", UNSTABLE),
    ("rwlock", "poison_test_rwlock_try_write", UNSTABLE),
    ("rwlock", "test_get_cloned_poison", UNSTABLE),
    ("rwlock", "test_set_poison", UNSTABLE),
    ("rwlock", "test_replace_poison", UNSTABLE),
    ("rwlock", "test_rw_arc_poison_mapped_w_r", UNSTABLE),
    ("rwlock", "test_rw_arc_poison_mapped_w_w", UNSTABLE),
    ("rwlock", "test_rw_arc_no_poison_mapped_r_r", UNSTABLE),
    ("rwlock", "test_rw_arc_no_poison_mapped_r_w", UNSTABLE),
    ("once_lock", "get_or_try_init", UNSTABLE),
    ("time", "system_time_duration_since_max_range_on_unix", UNSTABLE),
];

/// A file, one of its tests, and the ways in which the test does not run.
pub const NOT_ON_FIBERS: &[(&str, &str, &[&str])] = &[
    // It reads the name of the OS thread, and a fiber has no thread of its own.
    ("thread", "test_named_thread_truncation", &["on_one_worker", "on_two_workers"]),
    // They spin for another thread without yielding, so the spinning fiber may block the worker of
    // the fiber that it waits for.
    ("mpsc", "port_gone_concurrent", &["on_one_worker"]),
    ("mpsc", "port_gone_concurrent_shared", &["on_one_worker"]),
    ("mpsc", "test_recv_try_iter", &["on_one_worker", "on_two_workers"]),
    (
        "once_lock",
        "sync_once_cell_does_not_leak_partially_constructed_boxes",
        &["on_one_worker", "on_two_workers"],
    ),
];

/// A file, a piece of its text, and the text that replaces it. The pieces import unstable items of
/// std, or use its private parts.
pub const REPLACED: &[(&str, &str, &str)] = &[
    ("net_udp", "udpsock.0.socket().as_raw()", "crate::helpers::raw(&udpsock)"),
    ("unix_net", "use super::*;", "use ramie::os::unix::net::*;"),
    ("unix_net", "{SocketAddrExt, UnixSocketExt}", "SocketAddrExt"),
    ("unix_fs", "use super::*;", "use ramie::{fs, io, os::unix::fs::*};\nuse std::io::*;"),
    ("fs", "#[cfg(not(miri))]\nuse super::Dir;\n", ""),
    (
        "fs",
        "use crate::{assert_matches, env, str, thread};",
        "use crate::{env, str, thread};\nuse core::assert_matches;",
    ),
    ("mpsc_sync", "use std::sync::mpmc::SendTimeoutError;\n", ""),
    ("fs", "dir_entry.0.path()", "dir_entry.path()"),
    ("mutex", "MappedMutexGuard, ", ""),
    ("rwlock", "MappedRwLockReadGuard, MappedRwLockWriteGuard, ", ""),
];
