//! Finds the leftover of an iterator over a socket, for calls that have only the descriptor.
//!
//! The key is the kernel's number of the socket (`SO_COOKIE`), which duplicates of a descriptor
//! share; a descriptor's number may belong to another socket by now. Since Linux 5.3 the kernel
//! gives no number twice. Before, each network namespace counted by itself, so two sockets of
//! different namespaces may have the same number, and the number of the socket's inode becomes part
//! of the key ([`key_of`]).
//!
//! An inbox is enlisted when an iterator first receives from its socket, and struck off with the
//! last handle that has it. An object that is made of a duplicate of the descriptor gets the inbox
//! that is enlisted then; one that was made before gets it with its own first iterator. Until then
//! it does not find the leftover in its reads, because a look at the list costs a system call. If
//! it has accepted already, it has an inbox of its own, with an entry of its own. An entry is small
//! because a server has one for each idle connection.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use ramie_driver::{
    MultishotInbox,
    sys::{self, sockopt},
};

use super::{OpError, multishot};
use crate::core::{
    primitive::{AtomicUsize, Ordering},
    wait::park::WaitKind,
};

/// The number of enlisted inboxes: a program without iterators over sockets pays one load.
///
/// Relaxed: a thread that receives by the descriptor after another thread has left an iterator has
/// synchronised with that thread.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The key of the socket, and a serial number, because a socket may have several inboxes.
type Name = (NonZeroU64, u64);

struct ListedInbox {
    inbox: Weak<MultishotInbox>,
    /// The number of socket objects that have it. INVARIANT: each of them keeps it alive.
    owners: usize,
}

struct Inboxes {
    by_name: BTreeMap<Name, ListedInbox>,
    last_serial: u64,
}

static INBOXES: Mutex<Inboxes> = Mutex::new(Inboxes { by_name: BTreeMap::new(), last_serial: 0 });

fn inboxes() -> MutexGuard<'static, Inboxes> {
    INBOXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a number that no other open socket has; None on kernels before 4.6.
fn key_of(socket: impl AsFd) -> Option<NonZeroU64> {
    static ARE_COOKIES_UNIQUE: OnceLock<bool> = OnceLock::new();
    let are_unique = *ARE_COOKIES_UNIQUE.get_or_init(|| has_global_cookies(&sys::kernel_release()));
    let cookie = sockopt::socket_cookie(&socket).ok()?;
    // Those kernels number the inodes of sockets by 32 bits.
    let key = if are_unique { cookie } else { cookie << 32 | sys::inode(&socket).ok()? };
    NonZeroU64::new(key)
}

/// Whether all network namespaces of a kernel count sockets together.
fn has_global_cookies(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 3),
        _ => false,
    }
}

impl Inboxes {
    fn of_socket(&self, key: NonZeroU64) -> impl Iterator<Item = (&Name, &ListedInbox)> {
        self.by_name.range((key, 0)..=(key, u64::MAX))
    }

    /// Makes the first inbox of the socket also that of an object, if the object has none.
    fn share(&mut self, key: NonZeroU64, own: &OnceLock<Arc<MultishotInbox>>) -> Option<Name> {
        let (name, listed) = self.of_socket(key).next()?;
        let (name, inbox) = (*name, listed.inbox.upgrade()?);
        if !Arc::ptr_eq(own.get_or_init(|| Arc::clone(&inbox)), &inbox) {
            return None;
        }
        self.by_name.get_mut(&name)?.owners += 1;
        Some(name)
    }
}

/// The entry of the inbox that a socket object has. None: the kernel gives sockets no number.
#[derive(Debug)]
pub(crate) struct EnlistedInbox(Option<Name>);

impl EnlistedInbox {
    /// Enlists the inbox `own` of a socket object. If the object has none, gives it the one that is
    /// enlisted for the socket, or a new one.
    pub(crate) fn new(socket: impl AsFd, own: &OnceLock<Arc<MultishotInbox>>) -> EnlistedInbox {
        let Some(key) = key_of(socket) else {
            own.get_or_init(Arc::default);
            return EnlistedInbox(None);
        };
        let mut inboxes = inboxes();
        if let Some(name) = inboxes.share(key, own) {
            return EnlistedInbox(Some(name));
        }
        inboxes.last_serial += 1;
        let name = (key, inboxes.last_serial);
        let inbox = Arc::downgrade(own.get_or_init(Arc::default));
        inboxes.by_name.insert(name, ListedInbox { inbox, owners: 1 });
        COUNT.fetch_add(1, Ordering::Relaxed);
        EnlistedInbox(Some(name))
    }

    /// Gives a socket object without an inbox the one that is enlisted for the socket, if there is
    /// one.
    pub(crate) fn of_duplicate(
        socket: impl AsFd,
        own: &OnceLock<Arc<MultishotInbox>>,
    ) -> Option<EnlistedInbox> {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let key = key_of(socket)?;
        inboxes().share(key, own).map(|name| EnlistedInbox(Some(name)))
    }

    /// Gives the entry up; returns whether no other object has the inbox, so that nobody can take
    /// what is in it.
    pub(crate) fn leave(self) -> bool {
        let Some(name) = self.0 else { return true };
        let mut inboxes = inboxes();
        let Some(listed) = inboxes.by_name.get_mut(&name) else { return true };
        listed.owners -= 1;
        let is_last = listed.owners == 0;
        if is_last {
            inboxes.by_name.remove(&name);
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
        is_last
    }
}

/// The first inbox of this socket in which data is left, or for which an op is in flight.
#[inline]
pub(crate) fn in_use(socket: impl AsFd) -> Option<Arc<MultishotInbox>> {
    if COUNT.load(Ordering::Relaxed) == 0 { None } else { find_in_use(socket) }
}

#[inline(never)]
fn find_in_use(socket: impl AsFd) -> Option<Arc<MultishotInbox>> {
    let key = key_of(socket)?;
    let inboxes = inboxes();
    let mut upgraded = inboxes.of_socket(key).filter_map(|(_, listed)| listed.inbox.upgrade());
    upgraded.find(|inbox| inbox.is_in_use())
}

/// Returns whether an item is left now. Looks only, and does not end an op.
pub(crate) fn shows_leftover(socket: BorrowedFd<'_>) -> bool {
    in_use(socket).is_some_and(|inbox| inbox.has_leftover())
}

/// Returns whether data or a connection is left for this socket, so that the next call does not
/// wait. Ends an op in flight, which would take what the caller waits for.
#[inline]
#[track_caller]
pub(crate) fn has_leftover(
    socket: BorrowedFd<'_>,
    kind: &'static WaitKind,
) -> Result<bool, OpError> {
    // No closure, which would be the caller that dumps name.
    while let Some(inbox) = in_use(socket) {
        if multishot::has_leftover(&inbox, kind)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsRawFd};

    use super::*;

    #[test]
    fn old_kernels_count_sockets_by_namespace() {
        for release in ["4.19.0-26-amd64", "5.2.21", "5.2", "unheard of", "5"] {
            assert!(!has_global_cookies(release), "{release}");
        }
        for release in ["5.3.0-rc6", "5.10.0", "6.18.5", "10.0"] {
            assert!(has_global_cookies(release), "{release}");
        }
    }

    #[test]
    fn duplicates_share_their_key_and_no_other_socket_has_it() {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (one, other) = (one.unwrap(), other.unwrap());
        let duplicate = one.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(key_of(&one), key_of(&duplicate));
        assert_ne!(key_of(&one), key_of(&other));
        // There the kernel names a socket by its inode.
        let named = std::fs::read_link(format!("/proc/self/fd/{}", one.as_raw_fd())).unwrap();
        let expected = format!("socket:[{}]", sys::inode(&one).unwrap());
        assert_eq!(named.to_str(), Some(&*expected));
        assert_eq!(sys::inode(&one).unwrap(), sys::inode(&duplicate).unwrap());
        assert_ne!(sys::inode(&one).unwrap(), sys::inode(&other).unwrap());
    }
}
