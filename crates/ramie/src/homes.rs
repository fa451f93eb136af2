//! Finds the data that an iterator received from a socket and did not hand out, for calls that have
//! only the descriptor.
//!
//! The key is the kernel's number of the socket (`SO_COOKIE`), which duplicates of a descriptor
//! share; a descriptor's own number may be another socket's by now. Since Linux 5.3 the kernel
//! gives no number twice. Before, each network namespace counted by itself, so two sockets of
//! different namespaces may have the same number, and the number of the socket's inode is compared,
//! too ([`Key::of`]).
//!
//! A socket is enlisted when an iterator first receives from it, and struck off with its last
//! handle. Two objects that were made of duplicates of one descriptor are one socket with two
//! homes: each has an entry of its own.

use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use ramie_driver::{
    Home,
    sys::{self, sockopt},
};

use crate::primitive::{AtomicUsize, Ordering};

/// How many homes are enlisted: a program without iterators over sockets pays one load.
///
/// Relaxed: a thread that receives by the descriptor after another one has left an iterator behind
/// has learned of that in some way that orders this.
static COUNT: AtomicUsize = AtomicUsize::new(0);

static HOMES: Mutex<BTreeMap<Key, Vec<Weak<Home>>>> = Mutex::new(BTreeMap::new());

fn homes() -> MutexGuard<'static, BTreeMap<Key, Vec<Weak<Home>>>> {
    HOMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a socket from all others that are open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    cookie: u64,
    /// 0 where the cookie is enough.
    inode: u64,
}

impl Key {
    /// None on kernels before 4.6.
    fn of(socket: impl AsFd) -> Option<Key> {
        static ARE_COOKIES_UNIQUE: OnceLock<bool> = OnceLock::new();
        let are_unique =
            *ARE_COOKIES_UNIQUE.get_or_init(|| has_global_cookies(&sys::kernel_release()));
        let cookie = sockopt::socket_cookie(&socket).ok()?;
        let inode = if are_unique { 0 } else { sys::inode(&socket).ok()? };
        Some(Key { cookie, inode })
    }
}

/// Whether all network namespaces of a kernel count sockets together.
fn has_global_cookies(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 3),
        _ => false,
    }
}

/// The entry of one home; struck off when this is dropped.
#[derive(Debug)]
pub(crate) struct Enlisted {
    key: Option<Key>,
    home: Weak<Home>,
}

impl Enlisted {
    pub(crate) fn new(socket: impl AsFd, home: &Arc<Home>) -> Enlisted {
        let (key, home) = (Key::of(socket), Arc::downgrade(home));
        if let Some(key) = key {
            homes().entry(key).or_default().push(Weak::clone(&home));
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        Enlisted { key, home }
    }
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut homes = homes();
        if let Some(entries) = homes.get_mut(&key) {
            entries.retain(|entry| !entry.ptr_eq(&self.home));
            if entries.is_empty() {
                homes.remove(&key);
            }
        }
        drop(homes);
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The first home of this socket in which data is left, or for which an op is in flight.
#[inline]
pub(crate) fn in_use(socket: impl AsFd) -> Option<Arc<Home>> {
    if COUNT.load(Ordering::Relaxed) == 0 { None } else { find_in_use(socket) }
}

#[inline(never)]
fn find_in_use(socket: impl AsFd) -> Option<Arc<Home>> {
    let key = Key::of(socket)?;
    let homes = homes();
    homes.get(&key)?.iter().filter_map(Weak::upgrade).find(|home| home.is_in_use())
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
        assert_eq!(Key::of(&one), Key::of(&duplicate));
        assert_ne!(Key::of(&one), Key::of(&other));
        // There the kernel names a socket by its inode.
        let named = std::fs::read_link(format!("/proc/self/fd/{}", one.as_raw_fd())).unwrap();
        let expected = format!("socket:[{}]", sys::inode(&one).unwrap());
        assert_eq!(named.to_str(), Some(&*expected));
        assert_eq!(sys::inode(&one).unwrap(), sys::inode(&duplicate).unwrap());
        assert_ne!(sys::inode(&one).unwrap(), sys::inode(&other).unwrap());
    }
}
