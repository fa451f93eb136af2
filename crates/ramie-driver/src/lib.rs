//! I/O operations as data, completed by io_uring or by readiness polling.
//!
//! An [`Op`] is an operation as data, an [`OpFrame`] is its memory while it is in flight, and a
//! [`Driver`] turns frames into kernel calls. Completed frames come out of
//! [`Driver::pop_complete`]. The driver knows no fibers: the submitter decides what a completed
//! frame resumes.
//!
//! ```text
//!              submit(frame)                       pop_complete() -> frame
//!   caller ───────────────────▶  Driver  ───────────────────────────────▶  caller
//!                                  │  ▲
//!                    SQEs / calls  ▼  │  CQEs / readiness
//!                                 kernel
//! ```
//!
//! ```
//! use ramie_driver::{Choice, Config, Driver, Op, OpFrame, Submitted, Wait};
//! use std::ptr::NonNull;
//!
//! let mut driver = Driver::open(Choice::Auto, &Config::small())?;
//! let frame = OpFrame::new(Op::Nop);
//! // SAFETY: the frame stays here until it is complete, and a no-op points to nothing.
//! if unsafe { driver.submit(NonNull::from(&frame)) } == Submitted::InFlight {
//!     while !frame.is_complete() {
//!         driver.turn(Wait::Until(None))?;
//!     }
//!     assert_eq!(driver.pop_complete(), Some(NonNull::from(&frame)));
//! }
//! assert_eq!(frame.result(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # States of a frame
//!
//! | State | Left by | To |
//! |---|---|---|
//! | new | `submit` | in flight, or complete (the poll backend tries the call first) |
//! | in flight | the kernel's completion, reaped in `turn` | complete, or waiting again |
//! | waiting again | the next `turn` | in flight: the op was interrupted, or not ready after all |
//! | complete | `pop_complete` hands it out | belongs to the caller again |
//!
//! The race to fear is a cancellation: the op may complete, with data, before the request to cancel
//! it arrives. So only the op's own completion counts; the request's completion is ignored, and may
//! arrive when the frame is gone.
//!
//! # Threads
//!
//! A [`Driver`] belongs to the thread that opened it. Only [`Waker`] and [`RemoteHandle`] may be
//! sent or shared:
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<ramie_driver::Driver>();
//! ```
#![deny(unsafe_code)]

mod backend;
mod buffer;
mod call;
mod caps;
mod choice;
mod completed;
mod config;
mod driver;
mod error;
mod feature;
mod fixed;
#[doc(hidden)]
pub mod logging;
mod mask;
mod multishot;
mod op;
mod poll;
mod primitive;
mod region;
mod registration;
mod remote;
mod report;
mod submitter;
pub mod sys;
mod uring;
mod variables;
#[doc(hidden)]
pub mod visible;
mod wake;
mod why_refused;

// Only this file asks for the feature `faults`.
pub(crate) const HAS_FAULTS: bool = cfg!(feature = "faults");
// Without it, files that stand in for these modules
// inject nothing, and the compiler omits the code for faults.
#[cfg_attr(not(feature = "faults"), path = "faults/absent.rs")]
mod faults;
#[cfg_attr(not(feature = "faults"), path = "injected_absent.rs")]
mod injected;

pub use backend::{Submitted, Wait};
pub use buffer::Lease;
pub use call::{Call, ChildInfo, OpenHow};
pub use caps::{Caps, OpSupport, Refusal};
pub use choice::{Choice, Kind};
pub use config::Config;
pub use driver::{Driver, UNPOLLABLE};
pub use error::OpenError;
#[cfg(feature = "faults")]
pub use faults::{Fault, Faults};
pub use feature::{Feature, FeatureSet};
pub use fixed::FixedFile;
pub use mask::{Profile, masked_from_env};
pub use multishot::{
    Datagram, MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, NoBytes, OneByOne,
};
pub use op::{CURRENT_POSITION, Op, OpFrame, OpKind};
pub use region::Region;
pub use remote::RemoteHandle;
pub use report::{Check, Outcome, ProbeReport, Setting, Topic, probe_report};
pub use submitter::Submitter;
pub use sys::SockAddrStorage;
pub use sys::abi::{IoVec, MessageHeader, Timespec};
#[doc(hidden)]
pub use uring::RingTotals;
pub use variables::{
    VARIABLES, ignored_faults, invalid_value, unknown_variables, warn_about_unknown_variables,
};
pub use wake::Waker;

#[cfg(feature = "faults")]
impl Driver {
    /// Injects faults from now on, for tests. No op may be in flight.
    pub fn with_faults(self, faults: Faults) -> Driver {
        self.inject(faults)
    }
}

/// Returns the sums of the counts of all rings of this process, for measurements. A ring counts on
/// cache lines of its own.
#[doc(hidden)]
pub fn ring_totals() -> RingTotals {
    uring::ring_totals()
}
