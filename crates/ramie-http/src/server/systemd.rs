//! Sockets that systemd has opened for the service (`sd_listen_fds(3)`).
//!
//! systemd starts a service with sockets as the descriptors 3, 4 and so on. `LISTEN_FDS` tells how
//! many, `LISTEN_FDNAMES` their names, and `LISTEN_PID` which process they are for, so that a
//! process started by the service does not take the variables for its own.
//!
//! # Ownership rule
//! A descriptor that these variables name belongs to nobody in this process until it is taken, and
//! each is taken once: `TAKEN` records that.
#![allow(unsafe_code)]

use std::{
    env, fs, io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    sync::{Mutex, PoisonError},
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::{AddressFamily, SocketType, getsockname, sockopt},
};

/// The first descriptor.
const FIRST: RawFd = 3;
/// No service has more.
const MOST: usize = 1000;

/// The descriptors that were taken.
static TAKEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// A listening socket for streams.
pub(super) enum Passed {
    Tcp(OwnedFd),
    Unix(OwnedFd),
}

/// Takes the sockets of a name, or all.
pub(super) fn take(name: Option<&str>) -> io::Result<Vec<Passed>> {
    let variable = |name: &str| env::var(name).ok();
    let count = count(
        variable("LISTEN_PID").as_deref(),
        variable("LISTEN_FDS").as_deref(),
        std::process::id(),
    )?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let of_name = numbers(count, &names, name).filter(|fd| !taken.contains(fd));
    let descriptors: Vec<_> = of_name.collect();
    if descriptors.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            match name {
                Some(name) => format!("systemd has passed no socket `{name}` that is left"),
                None => "systemd has passed no socket that is left".to_owned(),
            },
        ));
    }
    taken.extend(&descriptors);
    drop(taken);
    descriptors.into_iter().map(passed).collect()
}

/// How many sockets there are for the process `own`.
fn count(pid: Option<&str>, count: Option<&str>, own: u32) -> io::Result<usize> {
    let (Some(pid), Some(count)) = (pid, count) else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "systemd has passed no sockets: LISTEN_PID and LISTEN_FDS are not set",
        ));
    };
    if pid.parse() != Ok(own) {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the sockets of systemd are for the process {pid}, and not for this one"),
        ));
    }
    count.parse().ok().filter(|count| *count <= MOST).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("invalid LISTEN_FDS `{count}`"))
    })
}

/// The descriptors of a name, or all.
fn numbers(count: usize, names: &str, name: Option<&str>) -> impl Iterator<Item = RawFd> {
    let names = names.split(':').map(Some).chain(std::iter::repeat(None));
    let numbered = (FIRST..).zip(names).take(count);
    let is_wanted = move |own: Option<&str>| name.is_none() || own == name;
    numbered.filter(move |(_, own)| is_wanted(*own)).map(|(fd, _)| fd)
}

fn passed(fd: RawFd) -> io::Result<Passed> {
    let link = fs::read_link(format!("/proc/self/fd/{fd}"))?;
    if !link.to_string_lossy().starts_with("socket:") {
        return Err(NotListening.into());
    }
    // SAFETY: it is open, by the check above. By the ownership rule nobody else owns it, because
    // systemd has passed it, and `take` has just recorded it in `TAKEN`.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Processes that the service starts must not inherit it.
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    let is_listener =
        sockopt::socket_type(&fd)? == SocketType::STREAM && sockopt::socket_acceptconn(&fd)?;
    if is_listener {
        match getsockname(&fd)?.address_family() {
            AddressFamily::INET | AddressFamily::INET6 => return Ok(Passed::Tcp(fd)),
            AddressFamily::UNIX => return Ok(Passed::Unix(fd)),
            _ => {}
        }
    }
    Err(NotListening.into())
}

/// A descriptor is no listening socket for streams.
struct NotListening;

impl From<NotListening> for io::Error {
    fn from(_: NotListening) -> Self {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a socket of systemd does not listen for streams: expected ListenStream with Accept=no",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_are_for_one_process() {
        assert_eq!(count(Some("7"), Some("2"), 7).unwrap(), 2);
        for (pid, fds, kind) in [
            (None, Some("1"), io::ErrorKind::NotFound),
            (Some("7"), None, io::ErrorKind::NotFound),
            (Some("8"), Some("1"), io::ErrorKind::NotFound),
            (Some("7"), Some("-1"), io::ErrorKind::InvalidData),
            (Some("7"), Some("1001"), io::ErrorKind::InvalidData),
        ] {
            assert_eq!(count(pid, fds, 7).unwrap_err().kind(), kind, "{pid:?} {fds:?}");
        }
    }

    #[test]
    fn sockets_are_found_by_their_names() {
        let of = |name| numbers(4, "a:b:a", name).collect::<Vec<_>>();
        assert_eq!(of(Some("a")), [3, 5]);
        assert_eq!(of(Some("b")), [4]);
        assert!(of(Some("c")).is_empty());
        assert_eq!(of(None), [3, 4, 5, 6]);
    }
}
