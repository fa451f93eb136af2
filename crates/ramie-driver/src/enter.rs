//! Who enters the kernel for a ring.

use std::time::Duration;

use crate::driver::OpenError;
use crate::say;

/// Who hands a worker's ops to the kernel while its fibers run.
///
/// A worker that has nothing to run always enters the kernel itself and waits there. What this
/// chooses is what happens while it is busy, and it matters for fibers that compute: with
/// [`Worker`](Enter::Worker) an op that one of them begins, and the answer to it, wait until the
/// worker next looks, some dozens of switches later. Somebody else sees them at once, and does the
/// kernel's work of the op on another CPU; for that the other CPU is busy, too.
///
/// One run on two CPUs (AMD Zen 4, Linux 6.18; `ramie-bench enter` measures yours), in us, wall
/// time and in brackets CPU time of the process:
///
/// | | `Worker` | `Sidecar` | `KernelThread` |
/// |---|---|---|---|
/// | a message of 1 KiB through a socket pair, 48 of them, no computing | 1.93 (1.90) | 1.97 (1.94) | 2.50 (2.44) |
/// | the same of 16 KiB, after 50 us of computing | 60 (60) | 58 (114) | 59 (116) |
/// | the same of 64 KiB | 85 (85) | 76 (151) | 83 (159) |
/// | until a fiber answers a thread, while 16 others compute for 50 us in turn | 6,090 | 1,940 | 1,920 |
///
/// So ask for a sidecar where fibers compute for tens of us and more, a CPU has nothing better to
/// do, and either answers are to come sooner or messages are large. It is nobody's default: small
/// messages gain nothing, and where all CPUs have workers on them it takes from one what it gives
/// to another. The kernel's thread has the same effect and costs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enter {
    /// The worker itself, now and then. The cheapest by far where fibers mostly wait for I/O.
    #[default]
    Worker,
    /// A thread of the kernel (`IORING_SETUP_SQPOLL`), which polls the ring without a pause until
    /// it has found nothing for `idle`, 1 ms at least, and then sleeps until it is woken.
    KernelThread {
        /// How long it polls in vain before it sleeps. In whole ms, rounded up.
        idle: Duration,
    },
    /// A thread of this process, which watches the ring for some 100 us after each op and then
    /// sleeps until it is woken.
    Sidecar,
}

/// The environment variable that chooses.
const VARIABLE: &str = "RAMIE_ENTER";

impl Enter {
    /// The kernel's thread, with an idle time that suits short pauses: 2 ms.
    pub const KERNEL_THREAD: Enter = Enter::KernelThread { idle: Duration::from_millis(2) };

    /// The name that `RAMIE_ENTER` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Enter::Worker => "worker",
            Enter::KernelThread { .. } => "kernel-thread",
            Enter::Sidecar => "sidecar",
        }
    }

    /// Reads `RAMIE_ENTER`: `worker`, `kernel-thread` or `sidecar`; none if it is unset or empty.
    ///
    /// # Errors
    /// Another value: the user's mistake, said in a sentence.
    pub fn from_env() -> Result<Option<Enter>, OpenError> {
        let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let all = [Enter::Worker, Enter::KERNEL_THREAD, Enter::Sidecar];
        let found = all.into_iter().find(|enter| value.to_str() == Some(enter.name()));
        found.map(Some).ok_or_else(|| {
            OpenError::new(
                None,
                format!(
                    "{VARIABLE} is {value:?}, but nobody of that name enters the kernel: set it to \
                     worker, kernel-thread or sidecar, or leave it unset, which means worker"
                ),
            )
        })
    }

    /// What to say of it where there is no ring.
    pub(crate) fn vain(self) -> Option<String> {
        let why = "the worker enters the kernel, since only a ring can be entered by";
        let sentence = format!("{why} {}", self.who());
        (self != Enter::Worker).then(|| {
            say!(Warn, "{sentence}");
            sentence
        })
    }

    /// Who it is, as the subject of a sentence.
    pub(crate) const fn who(self) -> &'static str {
        match self {
            Enter::Worker => "the worker",
            Enter::KernelThread { .. } => "a thread of the kernel",
            Enter::Sidecar => "a sidecar thread",
        }
    }
}
