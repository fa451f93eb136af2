//! The features that the kernel has for a driver: one value, found by trying.

use rustix::io::Errno;

use crate::call::Call;
use crate::choice::Kind;
use crate::feature::{Feature, FeatureSet};
use crate::submitter::Submitter;

/// A feature that was requested and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The requested feature.
    pub feature: Feature,
    /// The kernel's error; None if it refused by leaving a bit clear.
    pub errno: Option<Errno>,
}

/// One op code and whether the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpSupport {
    /// The kernel's name, without `IORING_OP_`.
    pub name: &'static str,
    /// Whether the kernel knows it.
    pub supported: bool,
    /// The features that are not used without it; none if there is no ring without it.
    pub feature: Option<Feature>,
}

/// The features that the kernel has for this driver.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Release of the running kernel, such as `6.12.3`.
    pub kernel: String,
    /// The kind of the backend.
    pub kind: Kind,
    /// The thread that submits the ops of a busy worker; with the poll backend it is the worker.
    pub submitter: Submitter,
    /// The features in use; empty for the poll backend.
    pub features: FeatureSet,
    /// The features that are not used although the kernel may have them: by `RAMIE_CAPS`, or by
    /// [`Config`](crate::Config).
    pub masked: FeatureSet,
    /// The requests that were refused.
    pub refused: Vec<Refusal>,
    /// The op codes that the driver can use; empty for the poll backend.
    pub ops: Vec<OpSupport>,
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
            submitter: Submitter::Worker,
            features: FeatureSet::EMPTY,
            masked: FeatureSet::EMPTY,
            refused: Vec::new(),
            ops: Vec::new(),
            sq_entries: 0,
            cq_entries: 0,
        }
    }

    /// Returns whether this driver makes `call` without blocking its thread: it is a ring, which
    /// has the op in use.
    pub fn can(&self, call: &Call) -> bool {
        self.kind == Kind::Uring && call.feature().is_none_or(|feature| self.features.has(feature))
    }

    /// Returns whether rings can wake each other directly.
    pub fn msg_ring(&self) -> bool {
        self.features.has(Feature::MsgRing)
    }

    /// Returns whether a wait takes its timeout as an argument.
    pub fn ext_arg(&self) -> bool {
        self.features.has(Feature::ExtArg)
    }
}
