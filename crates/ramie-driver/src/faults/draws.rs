//! Which op has which fault: random numbers from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::fit::moves_parts;
use super::{Fault, Faults};
use crate::op::Op;
use crate::sys;

/// The faults of one driver, and how far it has drawn them.
pub(super) struct Draws {
    pub(super) faults: Faults,
    random: u64,
    submitted: u64,
}

impl Draws {
    /// Makes the draws of one driver. The drivers of a process draw different numbers from a seed.
    pub(super) fn new(faults: Faults) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let share = OPENED.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = (faults.seed ^ share) | 1;
        Draws { faults, random, submitted: 0 }
    }

    /// Returns true once in `one_in` draws.
    pub(super) fn hits(&mut self) -> bool {
        self.faults.one_in > 0 && self.below(self.faults.one_in) == 0
    }

    /// A number below `bound` (xorshift).
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as u32 % bound.max(1)
    }

    /// The fault of the next op.
    pub(super) fn next(&mut self) -> Option<Fault> {
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
        if !self.hits() {
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

    /// Returns the op with fewer bytes, at least one, if its file may move fewer.
    pub(super) fn shorter(&mut self, op: Op) -> Option<Op> {
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
