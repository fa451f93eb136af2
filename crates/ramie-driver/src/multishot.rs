//! Ops that complete again and again, owned by the driver: a receive, an accept, a poll.
//!
//! Such an op outlives the call that started it, and whoever started it may be forgotten. So it
//! writes into the driver's own buffers, and what it brings ([`Shot`]) waits in the driver, then
//! in a [`Home`] that is shared with the socket, until somebody takes it.
//!
//! # States of an op
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | idle | the kernel has nothing of it | `next_shot` that finds no shot, to armed |
//! | armed | the kernel has it | a completion without `F_MORE`, whatever its result, to idle; a pause or `stop`, to leaving |
//! | leaving | a request to cancel it is on its way | its last completion, to idle, or to gone if it was stopped |
//! | gone | its shots are in its home | - |
//!
//! An op ends without notice: the kernel may drop it at any completion, because its queue was
//! full, because no buffer was left, or for no reason that it tells. Nothing is read into that: the
//! op is idle, whoever waits for it is woken, finds no shot, and arms it again.
//!
//! *The race to fear* is stopping: bytes and connections may arrive until the last completion. So
//! `stop` waits for that one (it is a matter of microseconds: what waits for readiness is cancelled
//! at once), and only then hands over what came.
//!
//! # Beside others
//! Who waits by an op of its own does not see what this one has brought. So none begins as long as
//! somebody does ([`Home::take_one_by_one`]), and whoever begins to, stops the one that there is.
//!
//! # Too much of it
//! An op whose shots nobody takes is paused (cancelled) at [`MOST_SHOTS`] or [`MOST_BYTES`], and
//! armed again when they have been taken. Until the request arrives, more may come.
//!
//! # Another thread
//! A home tells which driver has the op. Another thread asks that driver to stop it
//! ([`Home::request_stop`]), and learns from the driver of whoever waits ([`Driver::pop_notice`]).

use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Lease;
use crate::sys::SockAddrStorage;
use crate::wake::Waker;

/// As many shots may wait to be taken before the op is paused.
pub(crate) const MOST_SHOTS: usize = 64;
/// As many bytes may.
pub(crate) const MOST_BYTES: usize = 64 << 10;

/// What an op does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultishotOp {
    /// `recv` of a stream.
    #[allow(missing_docs)]
    Receive { fd: RawFd },
    /// `recvmsg` of datagrams, with their senders.
    #[allow(missing_docs)]
    ReceiveFrom { fd: RawFd },
    /// `accept4`.
    #[allow(missing_docs)]
    Accept { fd: RawFd, flags: i32 },
    /// `poll`: each shot is the mask of what became ready since the last one.
    #[allow(missing_docs)]
    Poll { fd: RawFd, events: u32 },
}

/// What an op brought, once.
#[derive(Debug)]
pub enum Shot {
    /// Bytes of a stream.
    Bytes(Lease),
    /// A datagram and its sender's address.
    Datagram(Box<Datagram>),
    /// The stream is at its end.
    End,
    /// A connection.
    Connection(OwnedFd),
    /// A mask of `POLL*` bits.
    Ready(u32),
    /// The call failed with this errno.
    Failed(i32),
}

/// A datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Its bytes.
    pub bytes: Lease,
    /// Who sent it.
    pub from: SockAddrStorage,
    /// How many bytes of `from` count.
    pub from_len: u32,
}

impl Shot {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Shot::Bytes(bytes) => bytes.len(),
            Shot::Datagram(datagram) => datagram.bytes.len(),
            _ => 0,
        }
    }
}

/// What [`Driver::next_shot`](crate::Driver::next_shot) found.
#[derive(Debug)]
pub enum NextShot {
    /// This came.
    Shot(Shot),
    /// Nothing yet; the op is armed.
    Pending,
    /// Nothing, and the kernel has no buffers for it: receive once without.
    NoBuffers,
    /// The op was stopped, or belongs to another driver.
    Gone,
}

/// Names an op, of whatever driver of this process, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultishotId {
    pub(crate) driver: u64,
    pub(crate) index: u32,
    pub(crate) generation: u64,
}

/// What another thread asks of the driver that has an op.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Of the driver, unlike all others': 64 bits do not wrap around in a process's life.
    pub(crate) driver: u64,
    pub(crate) to_stop: Mutex<Vec<MultishotId>>,
    waker: Waker,
}

impl Requests {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        static DRIVERS: AtomicU64 = AtomicU64::new(1);
        let driver = DRIVERS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Requests { driver, to_stop: Mutex::default(), waker })
    }

    fn stop(&self, id: MultishotId) {
        lock(&self.to_stop).push(id);
        self.waker.wake();
    }

    pub(crate) fn take(&self) -> Vec<MultishotId> {
        std::mem::take(&mut lock(&self.to_stop))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const ARMED: u8 = 1;
const LEFT: u8 = 2;

/// What a socket knows of the op that a driver does for it, and what that op left behind.
#[derive(Debug, Default)]
pub struct Home {
    /// Whether a driver has an op, and whether shots are left: of `inner`, to be read without it.
    state: AtomicU8,
    /// How many take one by one now. They wait in the kernel and do not look here, so meanwhile
    /// nothing may be brought here. As wide as this because a strand that is given up raises it for
    /// good.
    takers: AtomicUsize,
    inner: Mutex<Inner>,
}

/// Somebody who takes one by one; made by [`Home::take_one_by_one`].
#[derive(Debug)]
pub struct OneByOne<'a>(&'a Home);

impl Drop for OneByOne<'_> {
    fn drop(&mut self) {
        self.0.takers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// In the order in which they came.
    left: VecDeque<Shot>,
    owner: Option<(Arc<Requests>, MultishotId)>,
    /// Who waits for the op to be gone, in the words of whoever calls the driver.
    waiting: Vec<u64>,
    is_closed: bool,
}

impl Home {
    /// Tells whether there is anything: an op, or shots. One look.
    #[inline]
    pub fn is_in_use(&self) -> bool {
        // Acquire: what is found then, under the lock, is found for sure.
        self.state.load(Ordering::Acquire) != 0
    }

    /// Announces one who takes by an op of its own: as long as it does, no other op begins. One
    /// that has begun is to be stopped, and what it left to be taken, before that one waits.
    ///
    /// A strand that is given up while it takes stays announced: whatever else is done with the
    /// descriptor then is done one by one, which is as right, and dearer.
    pub fn take_one_by_one(&self) -> OneByOne<'_> {
        self.takers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence of `adopt`: either the op is seen from now on, or this is there.
        fence(Ordering::SeqCst);
        OneByOne(self)
    }

    /// Tells which op a driver does now.
    pub fn op(&self) -> Option<MultishotId> {
        lock(&self.inner).owner.as_ref().map(|(_, id)| *id)
    }

    /// Takes the oldest shot that an op left behind.
    pub fn take_left(&self) -> Option<Shot> {
        if self.state.load(Ordering::Acquire) & LEFT == 0 {
            return None;
        }
        let mut inner = lock(&self.inner);
        let shot = inner.left.pop_front();
        self.note(&inner);
        shot
    }

    /// Puts back what was taken: it is the oldest again.
    pub fn put_back(&self, shot: Shot) {
        let mut inner = lock(&self.inner);
        inner.left.push_front(shot);
        self.note(&inner);
    }

    /// Asks the driver that has the op to stop it. `user` comes out of that driver's
    /// [`pop_notice`](crate::Driver::pop_notice) when it is gone. False: no driver has it.
    pub fn request_stop(&self, user: u64) -> bool {
        let mut inner = lock(&self.inner);
        let Some((requests, id)) = inner.owner.clone() else { return false };
        if user != 0 {
            inner.waiting.push(user);
        }
        drop(inner);
        requests.stop(id);
        true
    }

    /// Drops what is left, and what will be: the socket is closed.
    pub fn close(&self) {
        let left = {
            let mut inner = lock(&self.inner);
            inner.is_closed = true;
            let left = std::mem::take(&mut inner.left);
            self.note(&inner);
            left
        };
        drop(left);
    }

    /// A driver begins an op. False: another is at it, or somebody takes one by one.
    pub(crate) fn adopt(&self, requests: &Arc<Requests>, id: MultishotId) -> bool {
        let mut inner = lock(&self.inner);
        if inner.owner.is_some() {
            return false;
        }
        inner.owner = Some((Arc::clone(requests), id));
        self.note(&inner);
        // Pairs with the fence of `take_one_by_one`.
        fence(Ordering::SeqCst);
        let is_alone = self.takers.load(Ordering::Relaxed) == 0;
        if !is_alone {
            inner.owner = None;
            self.note(&inner);
        }
        is_alone
    }

    /// The op is gone, and this is what it left. Returns who waited for that.
    pub(crate) fn leave(&self, shots: impl IntoIterator<Item = Shot>) -> Vec<u64> {
        let mut inner = lock(&self.inner);
        if !inner.is_closed {
            inner.left.extend(shots);
        }
        inner.owner = None;
        self.note(&inner);
        std::mem::take(&mut inner.waiting)
    }

    fn note(&self, inner: &Inner) {
        let armed = if inner.owner.is_some() { ARMED } else { 0 };
        let left = if inner.left.is_empty() { 0 } else { LEFT };
        // Release: pairs with the looks without the lock.
        self.state.store(armed | left, Ordering::Release);
    }
}
