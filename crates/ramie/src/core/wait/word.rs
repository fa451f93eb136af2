//! The wake word: how a driver names the strand that waits for an op.
//!
//! A driver keeps one word with each op and each multishot op, and returns it when the op's strand
//! should be woken. The driver gives the word no meaning; here it has four:
//!
//! | word | [`Waiting`] | changed by |
//! |---|---|---|
//! | 0 | nobody: the strand looks at the op by itself | the wait's beginning |
//! | 1 | released: the driver no longer uses the op's frame, so its strand may leave it | - |
//! | the top bit is set | a full wait, named by its [`WakeRef`] | the driver, which releases the frame |
//! | any other | a fiber in a plain wait, named by the address of its stack | the driver, which releases the frame |
//!
//! The cases cannot be confused: the bits of a `WakeRef` begin with a one and addresses do not,
//! and a [`FiberStack`] lies at the base of its stack, never at 0 or 1.

use crate::core::{strand::WakeRef, worker::FiberStack};

/// The word that a driver keeps for the strand that waits for an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WakeWord(u64);

/// The meanings of a [`WakeWord`].
pub(crate) enum Waiting {
    Nobody,
    /// The driver has released the frame. Until then the strand must not leave it, even if the
    /// result is there already, because the frame is on the driver's list.
    Released,
    /// A strand in a full wait, which any thread may end.
    Full(WakeRef),
    /// A fiber in a plain wait, which only its own worker ends.
    Plain(*const FiberStack),
}

impl WakeWord {
    pub(crate) const NOBODY: WakeWord = WakeWord(0);
    pub(crate) const RELEASED: WakeWord = WakeWord(1);

    #[inline(always)]
    pub(crate) fn full(wait: WakeRef) -> Self {
        WakeWord(wait.to_bits())
    }

    #[inline(always)]
    pub(crate) fn plain(stack: &FiberStack) -> Self {
        WakeWord(std::ptr::from_ref(stack).expose_provenance() as u64)
    }

    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        WakeWord(bits)
    }

    #[inline(always)]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn decode(self) -> Waiting {
        match WakeRef::from_bits(self.0) {
            Some(wait) => Waiting::Full(wait),
            None if self == Self::NOBODY => Waiting::Nobody,
            None if self == Self::RELEASED => Waiting::Released,
            None => Waiting::Plain(std::ptr::with_exposed_provenance(self.0 as usize)),
        }
    }
}
