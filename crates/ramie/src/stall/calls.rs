//! The names of system calls that block, and the call that waits for a futex.

/// The name of a system call, or its number.
pub(super) fn name_of(number: i64) -> String {
    let named = NAMES.iter().chain(NAMES_OF_X86_64).find(|(of, _)| *of == number);
    named.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned())
}

/// The address of the futex for which a call waits, if that is its purpose.
pub(super) fn awaited_futex(number: i64, arguments: &[usize; 6]) -> Option<usize> {
    /// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
    const FLAGS: usize = 128 | 256;
    // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
    const WAITS: [usize; 5] = [0, 6, 9, 11, 13];
    let is_wait = number == libc::SYS_futex && WAITS.contains(&(arguments[1] & !FLAGS));
    is_wait.then_some(arguments[0])
}

macro_rules! names {
    ($($constant:ident $name:literal)*) => { &[$((libc::$constant, $name)),*] };
}

/// Those that all architectures have.
const NAMES: &[(i64, &str)] = names![
    SYS_accept "accept"
    SYS_accept4 "accept4"
    SYS_clock_nanosleep "clock_nanosleep"
    SYS_clone "clone"
    SYS_clone3 "clone3"
    SYS_close "close"
    SYS_connect "connect"
    SYS_copy_file_range "copy_file_range"
    SYS_epoll_pwait "epoll_pwait"
    SYS_epoll_pwait2 "epoll_pwait2"
    SYS_execve "execve"
    SYS_fallocate "fallocate"
    SYS_fcntl "fcntl"
    SYS_fdatasync "fdatasync"
    SYS_flock "flock"
    SYS_fsync "fsync"
    SYS_ftruncate "ftruncate"
    SYS_futex "futex"
    SYS_getdents64 "getdents64"
    SYS_getrandom "getrandom"
    SYS_io_uring_enter "io_uring_enter"
    SYS_ioctl "ioctl"
    SYS_linkat "linkat"
    SYS_madvise "madvise"
    SYS_mkdirat "mkdirat"
    SYS_mmap "mmap"
    SYS_mprotect "mprotect"
    SYS_msgrcv "msgrcv"
    SYS_msgsnd "msgsnd"
    SYS_msync "msync"
    SYS_munmap "munmap"
    SYS_nanosleep "nanosleep"
    SYS_newfstatat "newfstatat"
    SYS_openat "openat"
    SYS_ppoll "ppoll"
    SYS_pread64 "pread64"
    SYS_preadv "preadv"
    SYS_preadv2 "preadv2"
    SYS_pselect6 "pselect6"
    SYS_pwrite64 "pwrite64"
    SYS_pwritev "pwritev"
    SYS_pwritev2 "pwritev2"
    SYS_read "read"
    SYS_readlinkat "readlinkat"
    SYS_readv "readv"
    SYS_recvfrom "recvfrom"
    SYS_recvmmsg "recvmmsg"
    SYS_recvmsg "recvmsg"
    SYS_renameat2 "renameat2"
    SYS_rt_sigsuspend "rt_sigsuspend"
    SYS_rt_sigtimedwait "rt_sigtimedwait"
    SYS_semop "semop"
    SYS_semtimedop "semtimedop"
    SYS_sendfile "sendfile"
    SYS_sendmmsg "sendmmsg"
    SYS_sendmsg "sendmsg"
    SYS_sendto "sendto"
    SYS_splice "splice"
    SYS_statx "statx"
    SYS_sync "sync"
    SYS_syncfs "syncfs"
    SYS_truncate "truncate"
    SYS_unlinkat "unlinkat"
    SYS_wait4 "wait4"
    SYS_waitid "waitid"
    SYS_write "write"
    SYS_writev "writev"
];

/// Older calls, which glibc and musl still make where they exist.
#[cfg(target_arch = "x86_64")]
const NAMES_OF_X86_64: &[(i64, &str)] = names![
    SYS_access "access"
    SYS_creat "creat"
    SYS_epoll_wait "epoll_wait"
    SYS_getdents "getdents"
    SYS_link "link"
    SYS_lstat "lstat"
    SYS_mkdir "mkdir"
    SYS_open "open"
    SYS_pause "pause"
    SYS_poll "poll"
    SYS_readlink "readlink"
    SYS_rename "rename"
    SYS_rmdir "rmdir"
    SYS_select "select"
    SYS_stat "stat"
    SYS_symlink "symlink"
    SYS_unlink "unlink"
    SYS_vfork "vfork"
];
#[cfg(not(target_arch = "x86_64"))]
const NAMES_OF_X86_64: &[(i64, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names() {
        assert_eq!(name_of(libc::SYS_clock_nanosleep), "clock_nanosleep");
        assert_eq!(name_of(100_000), "system call 100000");
        #[cfg(target_arch = "x86_64")]
        assert_eq!([7, 232].map(name_of), ["poll", "epoll_wait"]);
    }

    #[test]
    fn only_waits_await_a_futex() {
        let futex = |op| awaited_futex(libc::SYS_futex, &[0x10, op, 0, 0, 0, 0]);
        assert_eq!([0, 128, 137, 265, 393, 6].map(futex), [Some(0x10); 6]);
        // Waking, with the private flag and without.
        assert_eq!([1, 129, 10].map(futex), [None; 3]);
        assert_eq!(awaited_futex(libc::SYS_read, &[0x10, 0, 0, 0, 0, 0]), None);
    }
}
