//! Which socket has which home (of what came early): for calls that know a descriptor alone.
//!
//! The key is the kernel's number of the socket (`SO_COOKIE`), which duplicates of a descriptor
//! share and no other socket ever gets; a descriptor's own number may be another socket's by now.
//! A socket is enlisted when something may first come early, and struck off with its last handle.

use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use ramie_driver::{Home, sys::sockopt};

use crate::primitive::{AtomicUsize, Ordering};

/// How many sockets are enlisted: a program without iterators over sockets pays one load.
///
/// Relaxed: whoever leaves an iterator behind and then receives by the descriptor, on another
/// thread, too, has told that thread of it in some way that orders this.
static COUNT: AtomicUsize = AtomicUsize::new(0);

static HOMES: Mutex<BTreeMap<u64, Weak<Home>>> = Mutex::new(BTreeMap::new());

fn homes() -> MutexGuard<'static, BTreeMap<u64, Weak<Home>>> {
    HOMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of one socket; struck off when this is dropped.
#[derive(Debug)]
pub(crate) struct Enlisted {
    /// None on kernels before 4.6.
    cookie: Option<u64>,
}

impl Enlisted {
    pub(crate) fn new(socket: impl AsFd, home: &Arc<Home>) -> Enlisted {
        let cookie = sockopt::socket_cookie(socket).ok();
        if let Some(cookie) = cookie {
            homes().insert(cookie, Arc::downgrade(home));
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        Enlisted { cookie }
    }
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        if let Some(cookie) = self.cookie {
            homes().remove(&cookie);
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The home of this socket, if something came early there or is on its way.
#[inline]
pub(crate) fn in_use(socket: impl AsFd) -> Option<Arc<Home>> {
    if COUNT.load(Ordering::Relaxed) == 0 { None } else { find_in_use(socket) }
}

#[inline(never)]
fn find_in_use(socket: impl AsFd) -> Option<Arc<Home>> {
    let cookie = sockopt::socket_cookie(socket).ok()?;
    let home = homes().get(&cookie)?.upgrade()?;
    home.is_in_use().then_some(home)
}
