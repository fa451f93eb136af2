//! The thread that submits the ops of a ring to the kernel.

use std::time::Duration;

use crate::error::OpenError;
use crate::say;
use crate::variables::invalid_value;

/// The thread that submits a worker's ops to the kernel while the worker's fibers run.
///
/// A worker that has nothing to run always submits its ops itself and waits in the kernel. The
/// choice of a submitter matters while the worker is busy, so for fibers that compute. With
/// [`Worker`](Submitter::Worker), an op that a fiber submits and its completion wait until the
/// worker next looks, some dozens of switches later. A worker that often sleeps does not wait that
/// long: it submits after two ops, and then after larger and larger batches. Another submitter sees
/// an op at once and does the kernel's part of it on another CPU, which is then busy, too.
///
/// One run on two CPUs (AMD Zen 4, Linux 6.18; `ramie-bench submitter` measures yours), in us, wall
/// time and in brackets CPU time of the process:
///
/// | | `Worker` | `Sidecar` | `KernelThread` |
/// |---|---|---|---|
/// | a message of 1 KiB through a socket pair, 48 of them, no computing | 1.93 (1.90) | 1.97 (1.94) | 2.50 (2.44) |
/// | the same of 16 KiB, after 50 us of computing | 60 (60) | 58 (114) | 59 (116) |
/// | the same of 64 KiB | 85 (85) | 76 (151) | 83 (159) |
/// | until a fiber answers a thread, while 16 others compute for 50 us in turn | 6,090 | 1,940 | 1,920 |
///
/// Use a sidecar if fibers compute for tens of us and more, a CPU is idle, and either latency
/// matters or messages are large. It is not the default, because small messages gain nothing, and
/// if all CPUs have workers the sidecar takes its time from one of them. The kernel's thread has
/// the same effect and costs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submitter {
    /// The worker itself, between its fibers. By far the cheapest if fibers mostly wait for I/O.
    #[default]
    Worker,
    /// A kernel thread (`IORING_SETUP_SQPOLL`), which polls the ring without a pause until it has
    /// found nothing for `idle`, at least 1 ms, and then sleeps until it is woken.
    KernelThread {
        /// The time for which it polls without finding an op before it sleeps, in whole ms, rounded
        /// up.
        idle: Duration,
    },
    /// A thread of this process, which watches the ring for some 100 us after each op and then
    /// sleeps until it is woken.
    Sidecar,
}

/// The environment variable that chooses a submitter.
const VARIABLE: &str = "RAMIE_SUBMIT";

impl Submitter {
    /// The kernel's thread, with an idle time that suits short pauses: 2 ms.
    pub const KERNEL_THREAD: Submitter = Submitter::KernelThread { idle: Duration::from_millis(2) };

    /// The name that `RAMIE_SUBMIT` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Submitter::Worker => "worker",
            Submitter::KernelThread { .. } => "kernel-thread",
            Submitter::Sidecar => "sidecar",
        }
    }

    /// Reads `RAMIE_SUBMIT`: `worker`, `kernel-thread` or `sidecar`; None if it is unset or empty.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn from_env() -> Result<Option<Submitter>, OpenError> {
        let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let all = [Submitter::Worker, Submitter::KERNEL_THREAD, Submitter::Sidecar];
        let found = all.into_iter().find(|submitter| value.to_str() == Some(submitter.name()));
        found.map(Some).ok_or_else(|| {
            OpenError::new(
                None,
                invalid_value(VARIABLE, &value, "worker, kernel-thread or sidecar"),
            )
        })
    }

    /// Logs and returns the reason why the worker submits its ops without a ring; `None` if the
    /// worker was requested.
    pub(crate) fn warn_without_ring(self) -> Option<String> {
        let why = "the worker submits its ops, because only a ring has ops that are submitted by";
        let sentence = format!("{why} {}", self.described());
        (self != Submitter::Worker).then(|| {
            say!(Warn, "{sentence}");
            sentence
        })
    }

    /// The submitter as the subject of a sentence.
    pub(crate) const fn described(self) -> &'static str {
        match self {
            Submitter::Worker => "the worker",
            Submitter::KernelThread { .. } => "a thread of the kernel",
            Submitter::Sidecar => "a sidecar thread",
        }
    }
}
