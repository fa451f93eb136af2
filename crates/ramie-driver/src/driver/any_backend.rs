//! The backend of a driver. Each call is one `match`, which inlines.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Submitted, Wait};
use crate::buffer::{Lease, Pool};
use crate::caps::Caps;
use crate::faults::{Faults, Faulty};
use crate::fixed::FixedFile;
use crate::multishot::{
    MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, NoBytes,
};
use crate::op::{Op, OpFrame};
use crate::poll::Poll;
use crate::region::Region;
use crate::remote::RemoteHandle;
use crate::uring::Uring;
use crate::wake::Waker;

/// One of the backends. Without the feature `faults` there is no [`Faulty`], so the compiler omits
/// the last two.
#[derive(Debug)]
pub(super) enum AnyBackend {
    Uring(Box<Uring>),
    Poll(Box<Poll>),
    FaultyUring(Faulty<Uring>),
    FaultyPoll(Faulty<Poll>),
}

/// Calls a method of the backend.
macro_rules! call {
    ($any:ident, $name:ident($($argument:ident),*)) => {
        match $any {
            AnyBackend::Uring(backend) => backend.$name($($argument),*),
            AnyBackend::Poll(backend) => backend.$name($($argument),*),
            AnyBackend::FaultyUring(backend) => backend.$name($($argument),*),
            AnyBackend::FaultyPoll(backend) => backend.$name($($argument),*),
        }
    };
}

/// Methods that call the method of the same name of the backend.
macro_rules! forward {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            call!(self, $name($($argument),*))
        }
    )*};
    ($(fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            call!(self, $name($($argument),*))
        }
    )*};
}

impl Backend for AnyBackend {
    forward! {
        fn caps(&self) -> &Caps;
        fn needs_turn(&self) -> bool;
        fn in_flight(&self) -> usize;
        fn has_armed_multishots(&self) -> bool;
        fn waker(&self) -> Waker;
        fn remote(&self) -> RemoteHandle;
        fn has_surplus(&self) -> bool;
        fn poll_limit(&self) -> Option<Duration>;
        fn is_known_to_wait(&self, fd: RawFd, file: &FixedFile) -> bool;
    }

    forward! {
        fn submit(&mut self, frame: &OpFrame) -> Submitted;
        fn submit_known(&mut self, frame: &OpFrame, op: Op) -> Submitted;
        fn attach(&mut self, frame: &OpFrame, file: &FixedFile);
        fn cancel(&mut self, frame: &OpFrame);
        fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize;
        fn close_later(&mut self, fd: OwnedFd);
        fn turn(&mut self, wait: Wait) -> io::Result<()>;
        fn pop_complete(&mut self) -> Option<NonNull<OpFrame>>;
        fn wake(&mut self, target: &Waker);
        fn drain(&mut self);
        fn pollable(&mut self) -> io::Result<OwnedFd>;
        fn turn_to_poll(&mut self) -> io::Result<bool>;
        fn note_thread_goes_on(&mut self);
        fn start_multishot(
            &mut self, op: MultishotOp, inbox: &Arc<MultishotInbox>
        ) -> Option<MultishotId>;
        fn next_item(&mut self, id: MultishotId) -> NextItem;
        fn next_bytes_or_await(&mut self, id: MultishotId, user: u64) -> Result<Lease, NoBytes>;
        fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem>;
        fn await_item(&mut self, id: MultishotId, user: u64) -> bool;
        fn stop_multishot(&mut self, id: MultishotId) -> bool;
        fn pop_notice(&mut self) -> Option<u64>;
        fn end_multishot_silently(&mut self, id: MultishotId);
        fn pool(&mut self) -> &mut Pool;
        fn give_back_surplus(&mut self);
        fn register(&mut self, region: &Arc<Region>) -> Option<u16>;
        fn note_received(&mut self, fd: RawFd, file: &FixedFile, result: i32, len: u32);
        fn release_file(&mut self, file: &FixedFile) -> bool;
        fn reserve_index(&mut self, file: &FixedFile) -> bool;
        fn install_file(&mut self, file: &FixedFile) -> io::Result<RawFd>;
    }
}

impl AnyBackend {
    /// Injects faults from now on; no op is in flight. New faults replace older ones.
    pub(super) fn with_faults(self, faults: Faults) -> Self {
        match self {
            AnyBackend::Uring(inner) => AnyBackend::FaultyUring(Faulty::around(inner, faults)),
            AnyBackend::Poll(inner) => AnyBackend::FaultyPoll(Faulty::around(inner, faults)),
            AnyBackend::FaultyUring(faulty) => AnyBackend::FaultyUring(faulty.with(faults)),
            AnyBackend::FaultyPoll(faulty) => AnyBackend::FaultyPoll(faulty.with(faults)),
        }
    }
}
