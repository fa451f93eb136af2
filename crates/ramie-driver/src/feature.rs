//! The properties of a ring that a kernel has or lacks.

use std::fmt;

/// Makes the enum and its tables of one list: variant, the kernel's name (or Ramie's, for several
/// ops), the first kernel that has it.
macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident = $name:literal, $since:literal;)*) => {
        /// A property of a ring that is used if the kernel has it. Everything works without it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Feature {
            $($(#[$doc])* $feature,)*
        }

        impl Feature {
            /// Every feature, oldest first.
            pub const ALL: [Feature; [$($name),*].len()] = [$(Feature::$feature),*];

            /// Returns the kernel's name for it, or Ramie's for several ops, as `RAMIE_CAPS` takes
            /// it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Feature::$feature => $name,)*
                }
            }

            /// Returns the first kernel that has it.
            pub const fn since(self) -> &'static str {
                match self {
                    $(Feature::$feature => $since,)*
                }
            }
        }
    };
}

features! {
    /// The completion queue is larger than twice the submission queue.
    CqSize = "CQSIZE", "5.5";
    /// `tee` through the ring.
    Tee = "TEE", "5.8";
    /// Waits take a timeout directly; else a timeout op is submitted.
    ExtArg = "EXT_ARG", "5.11";
    /// `shutdown` through the ring.
    Shutdown = "SHUTDOWN", "5.11";
    /// Calls on paths go through the ring: rename, unlink, link, symlink, mkdir.
    PathCalls = "PATH_CALLS", "5.15";
    /// One failing SQE does not stop the rest of a batch.
    SubmitAll = "SUBMIT_ALL", "5.18";
    /// Rings can send messages to each other; else an eventfd wakes.
    MsgRing = "MSG_RING", "5.18";
    /// The worker names its ring by an index that its thread registered, not by a descriptor.
    RegisteredRing = "REGISTERED_RING", "5.18";
    /// A flag in shared memory shows that completions are waiting.
    TaskrunFlag = "TASKRUN_FLAG", "5.19";
    /// Completions do not interrupt the thread; used without `DeferTaskrun`.
    CoopTaskrun = "COOP_TASKRUN", "5.19";
    /// `socket` through the ring.
    Socket = "SOCKET", "5.19";
    /// Extended attributes through the ring.
    Xattr = "XATTR", "5.19";
    /// The kernel picks the buffer when bytes arrive.
    BufferRing = "BUFRING", "5.19";
    /// Busy streams have an index in a file table of the ring beside their descriptor; ops name the
    /// index.
    FixedFiles = "FIXED_FILES", "5.19";
    /// Registered memory, which an op need not pin.
    Regions = "FIXED_BUFFERS", "5.19";
    /// Only one thread submits: less locking.
    SingleIssuer = "SINGLE_ISSUER", "6.0";
    /// One op accepts, receives or polls repeatedly; otherwise each needs an op.
    Multishot = "MULTISHOT", "6.0";
    /// Completions are processed together when the thread waits.
    DeferTaskrun = "DEFER_TASKRUN", "6.1";
    /// Zero-copy sends.
    ZeroCopy = "ZEROCOPY", "6.1";
    /// One indirection less in the submission queue.
    NoSqArray = "NO_SQARRAY", "6.6";
    /// `futex` through the ring.
    Futex = "FUTEX", "6.7";
    /// `waitid` through the ring.
    WaitId = "WAITID", "6.7";
    /// A file that is only in the ring's file table can get a descriptor.
    InstallFd = "FIXED_FD_INSTALL", "6.8";
    /// `ftruncate` through the ring.
    Truncate = "FTRUNCATE", "6.9";
    /// One receive fills several buffers, and one completion reports them.
    Bundle = "BUNDLE", "6.10";
    /// `bind` and `listen` through the ring.
    BindListen = "BIND_LISTEN", "6.11";
    /// The kernel fills a buffer that it picked part by part.
    IncrementalBuffers = "BUFRING_INC", "6.12";
    /// `epoll_wait` through the ring.
    EpollWait = "EPOLL_WAIT", "6.15";
    /// `pipe2` through the ring.
    Pipe = "PIPE", "6.16";
}

/// A set of [`Feature`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureSet(u64);

impl FeatureSet {
    /// No feature.
    pub const EMPTY: FeatureSet = FeatureSet(0);

    /// Every feature.
    pub const fn all() -> Self {
        FeatureSet((1 << Feature::ALL.len()) - 1)
    }

    /// Returns whether the set contains `feature`.
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

    /// Returns the union with `other`.
    #[must_use]
    pub const fn plus(self, other: FeatureSet) -> Self {
        FeatureSet(self.0 | other.0)
    }

    /// Returns the set without the features of `other`.
    #[must_use]
    pub const fn minus(self, other: FeatureSet) -> Self {
        FeatureSet(self.0 & !other.0)
    }

    /// Lists the features.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(move |feature| self.has(*feature))
    }
}

impl fmt::Debug for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
