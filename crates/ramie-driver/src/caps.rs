//! What the kernel gives a driver: one value, found by trying.

use std::fmt;

use rustix::io::Errno;

use crate::driver::Kind;

/// A property of a ring that is used where the kernel has it; everything works without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Feature {
    /// Only one thread submits: less locking (6.0).
    SingleIssuer,
    /// Completions are worked off when we wait, in one go (6.1).
    DeferTaskrun,
    /// Completions do not interrupt us (5.19); used where `DeferTaskrun` is not.
    CoopTaskrun,
    /// A flag in shared memory says that completions are waiting (5.19).
    TaskrunFlag,
    /// One failing SQE does not stop the rest of a batch (5.18).
    SubmitAll,
    /// One indirection less in the submission queue (6.6).
    NoSqArray,
    /// The completion queue is larger than twice the submission queue (5.5).
    CqSize,
    /// Waits take a timeout directly (5.11); else a timeout op is submitted.
    ExtArg,
    /// Rings can wake each other (5.18); else an eventfd does.
    MsgRing,
    /// Calls on paths go through the ring ([`Op::Path`](crate::Op::Path), 5.15); else somebody
    /// else makes them.
    PathCalls,
}

impl Feature {
    /// Every feature, oldest first where the order matters to a downgrade.
    pub const ALL: [Feature; 10] = [
        Feature::CqSize,
        Feature::ExtArg,
        Feature::PathCalls,
        Feature::SubmitAll,
        Feature::MsgRing,
        Feature::TaskrunFlag,
        Feature::CoopTaskrun,
        Feature::SingleIssuer,
        Feature::DeferTaskrun,
        Feature::NoSqArray,
    ];

    /// The kernel's name for it; of `PathCalls`, several ops, ours.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::SingleIssuer => "SINGLE_ISSUER",
            Feature::DeferTaskrun => "DEFER_TASKRUN",
            Feature::CoopTaskrun => "COOP_TASKRUN",
            Feature::TaskrunFlag => "TASKRUN_FLAG",
            Feature::SubmitAll => "SUBMIT_ALL",
            Feature::NoSqArray => "NO_SQARRAY",
            Feature::CqSize => "CQSIZE",
            Feature::ExtArg => "EXT_ARG",
            Feature::MsgRing => "MSG_RING",
            Feature::PathCalls => "PATH_CALLS",
        }
    }

    /// The first kernel that has it.
    pub const fn since(self) -> &'static str {
        match self {
            Feature::SingleIssuer => "6.0",
            Feature::DeferTaskrun => "6.1",
            Feature::CoopTaskrun | Feature::TaskrunFlag => "5.19",
            Feature::SubmitAll | Feature::MsgRing => "5.18",
            Feature::NoSqArray => "6.6",
            Feature::CqSize => "5.5",
            Feature::ExtArg => "5.11",
            Feature::PathCalls => "5.15",
        }
    }
}

/// A set of [`Feature`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureSet(u32);

impl FeatureSet {
    /// No feature.
    pub const EMPTY: FeatureSet = FeatureSet(0);

    /// Every feature.
    pub const fn all() -> Self {
        FeatureSet((1 << Feature::ALL.len()) - 1)
    }

    /// Tells whether `feature` is in.
    #[inline]
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u8) != 0
    }

    /// Returns the set with `feature`.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        FeatureSet(self.0 | (1 << feature as u8))
    }

    /// Returns the set without `feature`.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        FeatureSet(self.0 & !(1 << feature as u8))
    }

    /// Returns the set with all that is in `other`.
    #[must_use]
    pub const fn plus(self, other: FeatureSet) -> Self {
        FeatureSet(self.0 | other.0)
    }

    /// Returns the set without all that is in `other`.
    #[must_use]
    pub const fn minus(self, other: FeatureSet) -> Self {
        FeatureSet(self.0 & !other.0)
    }

    /// Lists what is in.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(move |feature| self.has(*feature))
    }
}

impl fmt::Debug for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A feature that was asked for and not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was asked for.
    pub feature: Feature,
    /// What the kernel answered; none if it said so by leaving a bit clear.
    pub errno: Option<Errno>,
}

/// One op code and whether the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpSupport {
    /// The kernel's name, without `IORING_OP_`.
    pub name: &'static str,
    /// Whether the kernel knows it.
    pub supported: bool,
}

/// What the kernel gives this driver.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Release of the running kernel, such as `6.12.3`.
    pub kernel: String,
    /// Which backend this is.
    pub kind: Kind,
    /// What is used; empty for the poll backend.
    pub features: FeatureSet,
    /// What is not used though the kernel may have it: by `RAMIE_CAPS`, or by
    /// [`Config`](crate::Config).
    pub masked: FeatureSet,
    /// What was asked for and refused.
    pub refused: Vec<Refusal>,
    /// The op codes that the driver can use; empty for the poll backend.
    pub ops: Vec<OpSupport>,
    /// Whether a ring can do [`Op::Path`](crate::Op::Path) (5.15); false for the poll backend.
    pub path_calls: bool,
    /// Entries of the submission queue; 0 for the poll backend.
    pub sq_entries: u32,
    /// Entries of the completion queue; ops in flight are not bounded by it.
    pub cq_entries: u32,
}

impl Caps {
    pub(crate) fn of_poll() -> Self {
        Caps {
            kernel: crate::sys::kernel_release(),
            kind: Kind::Poll,
            features: FeatureSet::EMPTY,
            masked: FeatureSet::EMPTY,
            refused: Vec::new(),
            ops: Vec::new(),
            path_calls: false,
            sq_entries: 0,
            cq_entries: 0,
        }
    }

    /// Tells whether rings can wake each other directly.
    pub fn msg_ring(&self) -> bool {
        self.features.has(Feature::MsgRing)
    }

    /// Tells whether a wait takes its timeout directly.
    pub fn ext_arg(&self) -> bool {
        self.features.has(Feature::ExtArg)
    }
}
