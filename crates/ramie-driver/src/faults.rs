//! A driver around another that makes things go wrong: some ops are short, late, out of order,
//! interrupted, or fail. Compiled with the feature `faults` only; for tests.
//!
//! The real driver never sees a caller's frame: for each it gets a *stand-in*, which may ask for
//! less, and whose result becomes that of the frame it stands for.
//!
//! | state of a frame here | left by |
//! |---|---|
//! | held: not handed over yet | so many turns or a cancel, to its stand-in |
//! | has a stand-in in the real driver | the stand-in's completion, to completed |
//! | completed | `pop` |
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use crate::driver::{Driver, OpenError, Submitted, Wait};
use crate::multishot::{MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem};
use crate::op::{CURRENT_POSITION, Op, OpFrame, State};
use crate::sys::{self, raw};

const VARIABLE: &str = "RAMIE_FAULTS";

/// What goes wrong with one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves fewer bytes than asked for. Only streams and files can; others are spared.
    Short,
    /// It is handed over this many turns late.
    Late(u32),
    /// It fails with this errno, and is not done; but a close is, as the kernel's are.
    Fails(i32),
    /// The kernel answers so many times with this errno, which the driver has to hide: `EINTR`,
    /// `ECANCELED` that nobody asked for, or `EAGAIN` of an op that is to wait.
    Hidden(i32, u8),
}

/// Which ops go wrong, and how.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The same numbers come from the same seed; each driver has its own share.
    pub seed: u64,
    /// One op of so many has a random fault that a program which follows the rules does not see,
    /// and one completion of so many overtakes others; 0 for none.
    pub one_in: u32,
    /// One op of so many fails with this errno, and one wait of so many for an op that completes
    /// again and again; but no errno that such an op never brings.
    pub failing: Option<(u32, i32)>,
    /// This op, counted from 0, has this fault.
    pub at: Option<(u64, Fault)>,
}

impl Faults {
    /// Random faults that a program which follows the rules does not see.
    pub fn harmless(seed: u64) -> Self {
        Faults { seed, one_in: 3, failing: None, at: None }
    }

    /// Nothing but this fault of this op, counted from 0.
    pub fn at(op: u64, fault: Fault) -> Self {
        Faults { seed: 1, one_in: 0, failing: None, at: Some((op, fault)) }
    }

    /// Reads `RAMIE_FAULTS`: a seed; after a comma an errno as a number, with which ops then fail;
    /// after another, one of how many does, four if nothing is said. Unset or empty for none.
    ///
    /// # Errors
    /// Another value: the user's mistake, said in a sentence.
    pub fn from_env() -> Result<Option<Faults>, OpenError> {
        let value = std::env::var(VARIABLE).unwrap_or_default();
        if value.is_empty() {
            return Ok(None);
        }
        let numbers: Result<Vec<u64>, _> = value.split(',').map(str::parse).collect();
        let (seed, failing) = match numbers.as_deref() {
            Ok(&[seed]) => (seed, None),
            Ok(&[seed, errno]) => (seed, Some((4, errno as i32))),
            Ok(&[seed, errno, one_in]) => (seed, Some((one_in as u32, errno as i32))),
            _ => {
                let what = "which is none of SEED, SEED,ERRNO and SEED,ERRNO,ONE_IN: numbers";
                return Err(OpenError::new(None, format!("{VARIABLE} is {value:?}, {what}")));
            }
        };
        Ok(Some(Faults { failing, ..Faults::harmless(seed) }))
    }
}

/// What the real driver gets for a caller's frame.
struct StandIn {
    frame: OpFrame,
    real: NonNull<OpFrame>,
    /// What it is said to have come to.
    told: Option<i32>,
}

/// The driver around another.
pub(crate) struct Faulty {
    pub(crate) inner: Driver,
    faults: Faults,
    random: u64,
    submitted: u64,
    /// By the address of the frame they stand for. INVARIANT: each is in flight in `inner`, and
    /// dropped after it has come out of there.
    stand_ins: HashMap<usize, Box<StandIn>>,
    /// With the turns that are left.
    held: Vec<(u32, NonNull<OpFrame>, Option<Fault>)>,
    completed: VecDeque<NonNull<OpFrame>>,
}

impl Faulty {
    pub(crate) fn around(inner: Driver, faults: Faults) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let share = OPENED.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = (faults.seed ^ share) | 1;
        let (stand_ins, held, completed) = (HashMap::new(), Vec::new(), VecDeque::new());
        Faulty { inner, faults, random, submitted: 0, stand_ins, held, completed }
    }

    /// A number below `bound` (xorshift).
    fn below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as u32 % bound.max(1)
    }

    /// The fate of the next op.
    fn draw(&mut self) -> Option<Fault> {
        let nth = self.submitted;
        self.submitted += 1;
        if let Some((_, fault)) = self.faults.at.filter(|(at, _)| *at == nth) {
            return Some(fault);
        }
        if let Some((one_in, errno)) = self.faults.failing
            && self.below(one_in) == 0
        {
            return Some(Fault::Fails(errno));
        }
        if self.faults.one_in == 0 || self.below(self.faults.one_in) > 0 {
            return None;
        }
        let hidden = [Errno::INTR, Errno::CANCELED, Errno::AGAIN];
        Some(match self.below(3) {
            0 => Fault::Short,
            1 => Fault::Late(1 + self.below(3)),
            _ => {
                let errno = hidden[self.below(3) as usize].raw_os_error();
                Fault::Hidden(errno, 1 + self.below(5) as u8)
            }
        })
    }

    pub(crate) fn submit(&mut self, frame: &OpFrame) -> Submitted {
        match self.draw() {
            Some(Fault::Fails(errno)) if !matches!(frame.op, Op::Close { .. }) => {
                self.complete(NonNull::from(frame), -errno);
                Submitted::InFlight
            }
            Some(Fault::Late(turns)) => {
                frame.state.set(State::InFlight);
                self.held.push((turns, NonNull::from(frame), None));
                Submitted::InFlight
            }
            fault => match self.hand_over(NonNull::from(frame), fault) {
                None => Submitted::InFlight,
                Some(result) => {
                    frame.result.set(result);
                    frame.state.set(State::Complete);
                    Submitted::Complete
                }
            },
        }
    }

    /// Submits a stand-in; its result, if that is in at once.
    fn hand_over(&mut self, real: NonNull<OpFrame>, fault: Option<Fault>) -> Option<i32> {
        // SAFETY: a frame that was submitted is alive until popped (contract of `Driver::submit`).
        let asked = unsafe { real.as_ref() };
        let op = match fault {
            Some(Fault::Short) => self.shorter(asked.op).unwrap_or(asked.op),
            _ => asked.op,
        };
        let mut frame = OpFrame::new(op);
        frame.in_background = asked.in_background;
        frame.manner = asked.manner.clone();
        frame.slot.set(asked.slot.get());
        frame.registration.set(asked.registration.get());
        frame.user.set(real.as_ptr() as u64);
        if let Some(Fault::Hidden(errno, times)) = fault
            && can_hide(&op, errno)
        {
            frame.hidden_errno.set(errno);
            frame.hidden_times.set(times);
        }
        asked.state.set(State::InFlight);
        let told = match fault {
            Some(Fault::Fails(errno)) => Some(-errno),
            _ => None,
        };
        let stand_in = Box::new(StandIn { frame, real, told });
        let address = NonNull::from(&stand_in.frame);
        self.stand_ins.insert(real.as_ptr() as usize, stand_in);
        // SAFETY: the box keeps its place until the frame has come out of `inner` (`take`), or is
        // complete at once; what the op points to is kept by the caller.
        match unsafe { self.inner.submit(address) } {
            Submitted::InFlight => None,
            Submitted::Complete => Some(self.take(real.as_ptr() as usize).1),
        }
    }

    /// Lets go of a stand-in that is complete.
    fn take(&mut self, address: usize) -> (NonNull<OpFrame>, i32) {
        let stand_in = self.stand_ins.remove(&address).expect("completes once");
        (stand_in.real, stand_in.told.unwrap_or(stand_in.frame.result()))
    }

    fn complete(&mut self, real: NonNull<OpFrame>, result: i32) {
        // SAFETY: a frame that was submitted is alive until popped (contract of `Driver::submit`).
        let frame = unsafe { real.as_ref() };
        frame.result.set(result);
        frame.state.set(State::Complete);
        self.completed.push_back(real);
        if self.faults.one_in > 0 && self.below(self.faults.one_in) == 0 {
            let (last, at) = (self.completed.len() - 1, self.below(self.completed.len() as u32));
            self.completed.swap(last, at as usize);
        }
    }

    pub(crate) fn cancel(&mut self, frame: &OpFrame) {
        let real = NonNull::from(frame);
        if let Some(at) = self.held.iter().position(|(_, held, _)| *held == real) {
            // What is there comes first, as it does where nothing is late.
            let (_, frame, fault) = self.held.remove(at);
            if let Some(result) = self.hand_over(frame, fault) {
                self.complete(real, result);
            }
        }
        if let Some(stand_in) = self.stand_ins.get(&(real.as_ptr() as usize)) {
            // SAFETY: in flight in `inner` (invariant of `stand_ins`).
            unsafe { self.inner.cancel(NonNull::from(&stand_in.frame)) }
        }
    }

    pub(crate) fn start_multishot(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        // Some are done one by one.
        if self.faults.one_in > 0 && self.below(self.faults.one_in) == 0 {
            return None;
        }
        self.inner.start_multishot(op, inbox)
    }

    pub(crate) fn next_item(&mut self, id: MultishotId) -> NextItem {
        // Some end without notice.
        if self.faults.one_in > 0 && self.below(self.faults.one_in) == 0 {
            self.inner.end_multishot_silently(id);
        }
        match (self.inner.next_item(id), self.faults.failing) {
            (NextItem::Pending, Some((one_in, errno))) if self.below(one_in) == 0 => {
                self.fail_multishot(id, errno)
            }
            (next, _) => next,
        }
    }

    /// Ends an op with an errno. As in the kernel that is the last of what it brings, and it has
    /// looked up the descriptor.
    fn fail_multishot(&mut self, id: MultishotId, errno: i32) -> NextItem {
        if let Some(item) = self.inner.settle_multishot(id) {
            return NextItem::Item(item);
        }
        self.inner.end_multishot_silently(id);
        if ends_in_silence(errno) {
            NextItem::Pending
        } else {
            NextItem::Item(MultishotItem::Failed(errno))
        }
    }

    pub(crate) fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        let held = self.held.iter().map(|(_, frame, _)| *frame);
        let all = held.chain(self.stand_ins.values().map(|stand_in| stand_in.real));
        // SAFETY: in flight, so it is alive (contract of `Driver::submit`).
        let meant: Vec<_> = all.filter(|frame| is_meant(unsafe { frame.as_ref() })).collect();
        for frame in &meant {
            // SAFETY: as above.
            let frame = unsafe { frame.as_ref() };
            frame.cancel_asked.set(true);
            self.cancel(frame);
        }
        meant.len()
    }

    pub(crate) fn needs_turn(&self) -> bool {
        !self.held.is_empty() || !self.completed.is_empty() || self.inner.needs_turn()
    }

    pub(crate) fn turn(&mut self, wait: Wait) -> io::Result<()> {
        let (due, held) = std::mem::take(&mut self.held)
            .into_iter()
            .map(|(turns, frame, fault)| (turns.saturating_sub(1), frame, fault))
            .partition(|(turns, ..)| *turns == 0);
        self.held = held;
        let due: Vec<_> = due;
        for (_, frame, fault) in due {
            if let Some(result) = self.hand_over(frame, fault) {
                self.complete(frame, result);
            }
        }
        let is_idle = self.held.is_empty() && self.completed.is_empty();
        let turned = self.inner.turn(if is_idle { wait } else { Wait::Never });
        self.collect();
        turned
    }

    fn collect(&mut self) {
        while let Some(frame) = self.inner.pop_complete() {
            // SAFETY: a stand-in, alive until `take` (invariant of `stand_ins`).
            let address = unsafe { frame.as_ref() }.user.get() as usize;
            let (real, result) = self.take(address);
            self.complete(real, result);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<NonNull<OpFrame>> {
        self.completed.pop_front()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.held.len() + self.stand_ins.len()
    }

    pub(crate) fn drain(&mut self) {
        for (_, frame, _) in std::mem::take(&mut self.held) {
            self.complete(frame, -Errno::CANCELED.raw_os_error());
        }
        self.inner.drain();
        self.collect();
    }

    /// The op with fewer bytes, at least one, where its file may move fewer.
    fn shorter(&mut self, op: Op) -> Option<Op> {
        const PLAIN: i32 = sys::MSG_DONTWAIT | sys::MSG_NOSIGNAL;
        let fd = op.fd()?;
        let mut cut = |len: u32| 1 + self.below(len.max(2) - 1);
        let short = match op {
            Op::Read { fd, buf, len, offset } if len > 1 => {
                Op::Read { fd, buf, len: cut(len), offset }
            }
            Op::Write { fd, buf, len, offset } if len > 1 => {
                Op::Write { fd, buf, len: cut(len), offset }
            }
            Op::Recv { fd, buf, len, flags } if len > 1 && flags & !PLAIN == 0 => {
                Op::Recv { fd, buf, len: cut(len), flags }
            }
            Op::Send { fd, buf, len, flags } if len > 1 && flags & !PLAIN == 0 => {
                Op::Send { fd, buf, len: cut(len), flags }
            }
            Op::ReadVectored { fd, iov, count, offset } if count > 1 => {
                Op::ReadVectored { fd, iov, count: cut(count), offset }
            }
            Op::WriteVectored { fd, iov, count, offset } if count > 1 => {
                Op::WriteVectored { fd, iov, count: cut(count), offset }
            }
            _ => return None,
        };
        moves_parts(fd).then_some(short)
    }
}

/// Whether reads and writes of this descriptor may move part of what was asked for.
fn moves_parts(fd: i32) -> bool {
    if fd < 0 {
        return false;
    }
    let file = raw::borrow(&fd);
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Fifo => true,
        FileType::Socket => sockopt::socket_type(file) == Ok(SocketType::STREAM),
        _ => false,
    }
}

/// Whether the real driver has to hide this answer to this op.
fn can_hide(op: &Op, errno: i32) -> bool {
    match (op, Errno::from_raw_os_error(errno)) {
        // These two say how far a connect is that has begun.
        (Op::Connect { .. }, Errno::INTR | Errno::AGAIN) | (Op::Poll { .. }, Errno::AGAIN) => false,
        // It would mean that the descriptor is closed.
        (Op::Close { .. }, Errno::INTR) => false,
        (op, Errno::AGAIN) => {
            !op.refuses_to_wait() && is_anywhere(op) && op.fd().is_some_and(|fd| can_wait(op, fd))
        }
        _ => true,
    }
}

/// Whether this op, on this descriptor, may have to wait: else the kernel says at once what is
/// wrong with it, and its readiness may never come.
fn can_wait(op: &Op, fd: i32) -> bool {
    if fd < 0 || op.readiness() == 0 {
        return false;
    }
    let file = raw::borrow(&fd);
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    // A write may find room where poll(2) reports none, in a Unix stream or in the last page of a
    // pipe. Then only the peer could end the wait, which waits for this write perhaps.
    if op.readiness() == sys::POLL_OUT && !is_writable_now(file) {
        return false;
    }
    let is_epoll = matches!(op, Op::EpollWait { .. });
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => {
            let listens = sockopt::socket_acceptconn(file) == Ok(true);
            listens == matches!(op, Op::Accept { .. }) && !is_epoll
        }
        FileType::Fifo => {
            let mode = rustix::fs::fcntl_getfl(file).unwrap_or(OFlags::empty()) & OFlags::RWMODE;
            let other =
                if op.readiness() == sys::POLL_IN { OFlags::WRONLY } else { OFlags::RDONLY };
            is_plain(op) && mode != other
        }
        FileType::Unknown => is_epoll,
        _ => false,
    }
}

/// Whether poll(2) reports room.
fn is_writable_now(file: BorrowedFd<'_>) -> bool {
    sys::poll_now(file, sys::POLL_OUT).is_ok_and(|ready| ready & sys::POLL_OUT != 0)
}

/// Whether this answer to an op that completes again and again only ends it.
fn ends_in_silence(errno: i32) -> bool {
    let silent = [Errno::INTR, Errno::CANCELED, Errno::AGAIN, Errno::NOBUFS];
    silent.contains(&Errno::from_raw_os_error(errno))
}

fn is_plain(op: &Op) -> bool {
    matches!(
        op,
        Op::Read { .. } | Op::Write { .. } | Op::ReadVectored { .. } | Op::WriteVectored { .. }
    )
}

/// Whether polling the file in the op's stead is as good, as of streams; disk files are not
/// polled.
fn is_anywhere(op: &Op) -> bool {
    match *op {
        Op::Read { offset, .. }
        | Op::Write { offset, .. }
        | Op::ReadVectored { offset, .. }
        | Op::WriteVectored { offset, .. } => offset == CURRENT_POSITION,
        _ => true,
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        // The caller's frames get their results, and the stand-ins are out of the kernel.
        self.drain();
    }
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}
