//! The names of descriptors: the peer of a socket, the path of a file.

use std::{
    collections::HashMap,
    fs,
    os::{
        fd::{BorrowedFd, RawFd},
        unix::net::SocketAddr,
    },
};

use ramie_driver::sys;

use super::dump::{Dump, StrandDump, WaitTarget};

impl Dump {
    /// Looks up the peers of sockets and the paths of files that strands wait for. A descriptor
    /// that was closed since the dump was made gets no name, or that of a file opened since.
    ///
    /// `Display` looks up the descriptors that have no name by itself.
    pub fn name_descriptors(&mut self) {
        name_descriptors_of(&mut self.strands);
    }
}

pub(super) fn name_descriptors_of(strands: &mut [StrandDump]) {
    let mut names = HashMap::new();
    for strand in strands {
        let target = strand.wait.as_mut().map(|wait| &mut wait.target);
        if let Some(WaitTarget::Descriptor { fd, name, .. }) = target {
            *name = names.entry(*fd).or_insert_with(|| name_of(*fd)).clone();
        }
    }
}

/// The name of a descriptor of this process; none if it is not open.
pub(super) fn name_of(fd: RawFd) -> Option<String> {
    let link = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let link = link.to_string_lossy().into_owned();
    if !link.starts_with("socket:") {
        return Some(link);
    }
    Some(socket_name(fd).unwrap_or(link))
}

#[allow(unsafe_code)]
fn socket_name(fd: RawFd) -> Option<String> {
    // SAFETY: borrowed for two calls that only read names. If the descriptor was closed meanwhile,
    // they fail or read the names of another socket.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let path =
        |address: SocketAddr| address.as_pathname().map(|path| path.to_string_lossy().into_owned());
    let local = match sys::local_addr(socket) {
        Ok(address) => Some(address.to_string()),
        Err(_) => sys::local_addr_unix(socket).ok().and_then(path),
    };
    let peer = match sys::peer_addr(socket) {
        Ok(address) => Some(address.to_string()),
        Err(_) => sys::peer_addr_unix(socket).ok().and_then(path),
    };
    match (local, peer) {
        (Some(local), Some(peer)) => Some(format!("socket {local} to {peer}")),
        (Some(local), None) => Some(format!("socket {local}")),
        (None, Some(peer)) => Some(format!("socket to {peer}")),
        (None, None) => None,
    }
}
