//! The reasons why the kernel refuses a ring or an epoll set, and the remedies.

use std::io;

use rustix::io::Errno;

use crate::sys;

/// The remedy of programs that asked for a ring.
pub(crate) const OR_POLL: &str = ", or set RAMIE_DRIVER=poll";

/// Returns the likely cause of io_uring's refusal, and the remedy. `otherwise`, an alternative to a
/// ring, is appended to the remedy, unless it would fail as the ring did.
pub(crate) fn why_refused(error: &io::Error, otherwise: &str) -> (String, String) {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => why_forbidden(otherwise),
        Some(Errno::NOSYS) => why_absent(otherwise),
        Some(Errno::NOMEM) => {
            let limit = sys::memlock_limit().soft;
            let limit = limit.map_or("unlimited".into(), |bytes| format!("{} KiB", bytes / 1024));
            (
                format!("memory is short, or locked memory (`ulimit -l` is {limit}) is used up"),
                format!("raise `ulimit -l`, which kernels before 5.12 charge rings to{otherwise}"),
            )
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            // Not `otherwise`, because an epoll set takes a descriptor, too.
            ("descriptors are used up".into(), "raise `ulimit -n` or close some".into())
        }
        Some(Errno::TIMEDOUT) => (
            "a ring was made, but an op did not come back within a second".into(),
            format!("report this kernel{otherwise}"),
        ),
        _ => ("an answer that no known kernel gives".into(), format!("report it{otherwise}")),
    }
}

/// Returns the remedy if an epoll set, or the descriptor in it that wakes the driver, is refused.
pub(crate) fn remedy_for_epoll(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => "raise `ulimit -n` or close some descriptors",
        Some(Errno::NOMEM) => "free memory, or raise the memory limit",
        Some(Errno::NOSPC) => "raise sysctl fs.epoll.max_user_watches",
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
            "allow epoll_create1, epoll_ctl and eventfd2 in the sandbox"
        }
        _ => "report it",
    }
}

fn why_forbidden(otherwise: &str) -> (String, String) {
    match (sys::sysctl("kernel/io_uring_disabled"), sys::seccomp_mode()) {
        (Some(2), _) => (
            "the administrator has switched it off (sysctl kernel.io_uring_disabled is 2)".into(),
            format!("set it to 0{otherwise}"),
        ),
        (Some(1), _) => (
            "sysctl kernel.io_uring_disabled is 1 and this user is not in kernel.io_uring_group"
                .into(),
            format!("set it to 0 or join the group{otherwise}"),
        ),
        (_, Some(2)) => (
            "a seccomp filter forbids it, as Docker's and containerd's do by default".into(),
            format!(
                "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp \
                 profile{otherwise}"
            ),
        ),
        _ => (
            "a security module (such as SELinux) forbids it".into(),
            format!("allow it in the module's policy{otherwise}"),
        ),
    }
}

fn why_absent(otherwise: &str) -> (String, String) {
    let release = sys::kernel_release();
    let cause = match sys::seccomp_mode() {
        Some(2) => format!("a seccomp filter hides it, or kernel {release} lacks it (before 5.7)"),
        _ => format!("kernel {release} lacks it: older than 5.7, built without it, or gVisor"),
    };
    (cause, format!("use a newer kernel or another sandbox{otherwise}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_descriptors_is_cured_by_more_of_them() {
        let names_their_limit =
            |errno: Errno| remedy_for_epoll(&errno.into()).contains("ulimit -n");
        assert!(names_their_limit(Errno::MFILE) && names_their_limit(Errno::NFILE));
        for other in [Errno::NOMEM, Errno::NOSPC, Errno::PERM, Errno::NOSYS, Errno::INVAL] {
            assert!(!names_their_limit(other), "{other}");
        }
    }
}
