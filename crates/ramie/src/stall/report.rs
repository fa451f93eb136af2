//! The report of a stall.

use std::{fmt, time::Duration};

use crate::{
    inspect::StallRecord,
    unwind::{self, Backtrace},
};

/// The most fibers that a report names.
pub(super) const NAMED: usize = 10;

/// Describes a fiber that has kept its worker for longer than
/// [`Builder::stall_limit`](crate::Builder::stall_limit). Its `Display` is the report.
#[derive(Debug, Clone)]
pub struct Stall {
    pub(super) fiber: String,
    pub(super) closure: &'static str,
    pub(super) worker: usize,
    pub(super) is_in_no_switch: bool,
    pub(super) is_in_panic_hook: bool,
    pub(super) duration: Duration,
    pub(super) cause: StallCause,
    pub(super) calls: Option<Backtrace>,
    pub(super) unreported: u32,
}

/// The reason why a fiber keeps its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// It computes; this is the CPU time that it has used at least.
    Computing(Duration),
    /// It panics, and the panic hook computes or reads the mapped program: the first backtrace of
    /// a process (`RUST_BACKTRACE`) looks up its symbols. This is the CPU time that the fiber has
    /// used at least.
    PanicHook(Duration),
    /// It blocks its thread in the system call of this name.
    SystemCall(String),
    /// It waits for a futex: for a lock, a condition variable, a channel or the end of a thread, of
    /// std, parking_lot or crossbeam. These block the thread, with all fibers of the worker.
    Lock(LockHolders),
    /// It waits for memory: for a page of a mapped file, or one that was swapped out.
    PageFault,
}

/// The system calls in which Ramie's drivers wait.
const WAITS_OF_DRIVERS: [&str; 2] = ["io_uring_enter", "epoll_pwait"];

/// The fibers of the stalled worker that may hold what the stalled fiber waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockHolders {
    pub(super) lines: Vec<String>,
    pub(super) more: usize,
    pub(super) unstarted: u64,
    /// Whether the worker has more stacks than were looked at.
    pub(super) is_cut: bool,
}

impl LockHolders {
    /// Describes each of these fibers: its name, its wait with the place in the source, and the
    /// closure that it runs. The likeliest ones, whose stacks refer to the lock, come first. Ten at
    /// most are listed.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

impl Stall {
    /// Returns the name of the stalled fiber: `fiber 'name'`, or `fiber` and its id. Control
    /// characters in it are escaped: `\u{1b}`.
    #[must_use]
    pub fn fiber(&self) -> &str {
        &self.fiber
    }

    /// Returns the name of the type of the fiber's closure, which contains the path of the function
    /// around it.
    #[must_use]
    pub fn closure(&self) -> &str {
        self.closure
    }

    /// Returns the index of the stalled worker.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns whether the fiber is in a [`no_switch`](crate::no_switch()) region.
    #[must_use]
    pub fn is_in_no_switch(&self) -> bool {
        self.is_in_no_switch
    }

    /// Returns whether the fiber panics and is in the panic hook, of Ramie or of the program. Locks
    /// and system calls of the hook block the fiber's thread.
    #[must_use]
    pub fn is_in_panic_hook(&self) -> bool {
        self.is_in_panic_hook
    }

    /// Returns for how long the fiber has run, at least.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the calls in which the fiber was when the stall was found. `None` without the crate
    /// feature `backtrace`, and if they could not be read: see
    /// [`Builder::stall_limit`](crate::Builder::stall_limit).
    #[must_use]
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.calls.as_ref()
    }

    /// Returns the cause.
    #[must_use]
    pub fn cause(&self) -> &StallCause {
        &self.cause
    }
}

impl Stall {
    /// The report in brief, for summaries.
    pub(super) fn record(&self) -> StallRecord {
        let cause = self.cause.to_string();
        StallRecord {
            fiber: self.fiber.clone(),
            worker: self.worker,
            lasted: self.duration,
            cause: cause.lines().next().unwrap_or_default().to_owned(),
            closure: self.closure,
        }
    }

    fn help(&self) -> &'static str {
        match &self.cause {
            StallCause::Lock(_) if self.is_in_panic_hook => {
                "only one thread of a process makes a backtrace at a time, and the first one looks \
                 up its symbols, which takes some hundred ms in a debug build: RUST_BACKTRACE=0 \
                 prints none; a fiber that holds a lock that the hook takes, such as that of \
                 stderr, must release it before calls that wait"
            }
            StallCause::SystemCall(_) if self.is_in_panic_hook => {
                "a fiber does not suspend while it panics, so each call of the panic hook blocks \
                 the thread, also in ramie::blocking: let the hook hand its text to a thread, and \
                 look who reads stderr"
            }
            cause => cause.help(),
        }
    }

    /// The report without the calls, whose look-up takes time.
    pub(super) fn without_calls(&self) -> Stall {
        Stall { calls: None, ..self.clone() }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stall { fiber, worker, closure, .. } = self;
        let ms = self.duration.as_millis();
        write!(
            f,
            "stall: {fiber} has run on worker {worker} for {ms} ms without a switch, and no other \
             fiber of this worker can run"
        )?;
        if !closure.is_empty() {
            write!(f, "\n  it runs {closure}")?;
            // The closure alone may not show the cause, because the closure of a connection runs
            // all handlers of a server.
            if !unwind::IS_AVAILABLE && cfg!(target_arch = "x86_64") {
                f.write_str(" (the feature `backtrace` of the crate ramie shows its calls)")?;
            }
        }
        if self.is_in_no_switch {
            f.write_str("\n  it is in a no_switch region, in which no call may wait")?;
        }
        if self.is_in_panic_hook && !matches!(self.cause, StallCause::PanicHook(_)) {
            f.write_str("\n  it reports a panic: it is in the panic hook, which does not suspend")?;
        }
        write!(f, "\n  {}", self.cause)?;
        if let Some(calls) = &self.calls {
            write!(f, "\n  {}", calls.listed("  "))?;
        }
        if self.unreported > 0 {
            write!(f, "\n  {} more stalls of this closure were not reported", self.unreported)?;
        }
        write!(f, "\n  help: {}", self.help())
    }
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StallCause::Computing(cpu) => {
                write!(f, "it computes: at least {} ms of CPU time", cpu.as_millis())
            }
            StallCause::PanicHook(cpu) => write!(
                f,
                "it reports a panic: the panic hook runs, with at least {} ms of CPU time so far",
                cpu.as_millis()
            ),
            StallCause::SystemCall(name) => {
                write!(f, "it blocks its thread in the system call {name}")
            }
            StallCause::PageFault => f.write_str(
                "it waits for memory: a page of a mapped file, or one that was swapped out",
            ),
            StallCause::Lock(holders) => write!(
                f,
                "it blocks its thread in the system call futex: it waits for a lock, a LazyLock, a \
                 condition variable, a channel or a thread of std, parking_lot or \
                 crossbeam{holders}"
            ),
        }
    }
}

impl fmt::Display for LockHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() && self.unstarted == 0 {
            return Ok(());
        }
        f.write_str("\n  fibers of this worker that may hold it, or may have to send:")?;
        for line in &self.lines {
            write!(f, "\n    {line}")?;
        }
        if self.more > 0 {
            write!(f, "\n    and {} more", self.more)?;
        }
        if self.is_cut {
            f.write_str("\n    and others: only some thousand stacks are looked at")?;
        }
        if self.unstarted > 0 {
            write!(f, "\n    fibers of the runtime that have not started: {}", self.unstarted)?;
        }
        Ok(())
    }
}

impl StallCause {
    fn help(&self) -> &'static str {
        match self {
            StallCause::Computing(_) => {
                "call ramie::fiber::yield_now() now and then, or move the computation to another \
                 thread with ramie::blocking(|| ...)"
            }
            StallCause::PanicHook(_) => {
                "the panic is reported besides; the first backtrace of a process looks up its \
                 symbols, which takes some hundred ms in a debug build: RUST_BACKTRACE=0 prints \
                 none"
            }
            StallCause::SystemCall(name) if WAITS_OF_DRIVERS.contains(&name.as_str()) => {
                "if the call is Ramie's, it waits in place, because a fiber does not suspend while \
                 a panic unwinds it: let destructors not wait; otherwise make the call on another \
                 thread with ramie::blocking(|| ...)"
            }
            StallCause::SystemCall(_) => {
                "use Ramie's twin of the call (ramie::fs, net, io, process, fiber::sleep), or make \
                 the call on another thread with ramie::blocking(|| ...)"
            }
            StallCause::PageFault => {
                "read the file with ramie::fs rather than mapping it, or touch the memory on \
                 another thread with ramie::blocking(|| ...)"
            }
            StallCause::Lock(_) => {
                "use ramie::sync and ramie::channel, which park only the fiber, or release the \
                 lock before calls that wait; RAMIE_STRANDS=threads runs each fiber as a thread, \
                 to try; a wait for foreign threads belongs in ramie::blocking(|| ...)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::calls::name_of;

    fn stall(cause: StallCause) -> Stall {
        Stall {
            fiber: "fiber 'a'".to_owned(),
            closure: "app::main::{{closure}}",
            worker: 1,
            is_in_no_switch: false,
            is_in_panic_hook: false,
            duration: Duration::from_micros(37_900),
            cause,
            calls: None,
            unreported: 0,
        }
    }

    #[test]
    fn a_report_names_fiber_cause_and_remedy() {
        let text = stall(StallCause::SystemCall("read".to_owned())).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("stall: fiber 'a' has run on worker 1 for 37 ms"), "{text}");
        let hint = match unwind::IS_AVAILABLE || cfg!(not(target_arch = "x86_64")) {
            true => "",
            false => " (the feature `backtrace` of the crate ramie shows its calls)",
        };
        assert_eq!(lines[1], format!("  it runs app::main::{{{{closure}}}}{hint}"));
        assert_eq!(lines[2], "  it blocks its thread in the system call read");
        assert!(lines[3].starts_with("  help: ") && lines[3].contains("ramie::blocking"), "{text}");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn calls_in_which_the_drivers_wait_have_advice_of_their_own() {
        let has_it = |name: &str| {
            let text = stall(StallCause::SystemCall(name.to_owned())).to_string();
            let help = text.split_once("\n  help: ").expect("a report has advice").1;
            assert!(help.contains("ramie::blocking"), "{text}");
            // In these calls the fiber may be waiting for an op of Ramie.
            let is_of_drivers = help.contains("let destructors not wait");
            assert_ne!(is_of_drivers, help.contains("use Ramie's twin of the call"), "{text}");
            is_of_drivers
        };
        let of_drivers = [libc::SYS_io_uring_enter, libc::SYS_epoll_pwait].map(name_of);
        assert!(of_drivers.iter().all(|name| has_it(name)));
        assert!(!has_it("read"));
    }

    #[test]
    fn a_panic_hook_that_blocks_its_thread_is_named() {
        let in_hook = |cause| {
            let mut stall = stall(cause);
            stall.is_in_panic_hook = true;
            stall.to_string()
        };
        let line = "\n  it reports a panic: it is in the panic hook, which does not suspend\n";
        let lock = in_hook(StallCause::Lock(LockHolders::default()));
        assert!(lock.contains(line) && lock.contains("RUST_BACKTRACE=0"), "{lock}");
        assert!(!lock.contains("ramie::sync"), "{lock}");
        // A twin of the call would block the thread, too.
        let call = in_hook(StallCause::SystemCall("write".to_owned()));
        assert!(call.contains(line) && call.contains("who reads stderr"), "{call}");
        assert!(!call.contains("Ramie's twin"), "{call}");
        // The cause is the line.
        let hook = in_hook(StallCause::PanicHook(Duration::from_millis(26)));
        assert_eq!(hook.matches("it reports a panic: ").count(), 1, "{hook}");
    }

    #[test]
    fn a_report_has_lines_for_what_is_special() {
        let holders = LockHolders {
            lines: vec!["fiber 'b' waits for its turn to run".to_owned()],
            more: 3,
            unstarted: 2,
            is_cut: true,
        };
        let mut stall = stall(StallCause::Lock(holders));
        (stall.is_in_no_switch, stall.unreported, stall.closure) = (true, 4, "");
        let text = stall.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert!(lines[1].contains("no_switch"), "{text}");
        assert!(lines[2].contains("futex"), "{text}");
        assert_eq!(lines[4], "fiber 'b' waits for its turn to run");
        assert_eq!(lines[5], "and 3 more");
        assert!(lines[6].starts_with("and others"), "{text}");
        assert_eq!(lines[7], "fibers of the runtime that have not started: 2");
        assert_eq!(lines[8], "4 more stalls of this closure were not reported");
        assert!(lines[9].contains("RAMIE_STRANDS=threads"), "{text}");
        let nothing = StallCause::Lock(LockHolders::default()).to_string();
        assert!(nothing.ends_with("crossbeam"), "{nothing}");
        assert!(StallCause::PageFault.to_string().contains("memory"));
        let computing = StallCause::Computing(Duration::from_millis(26));
        assert_eq!(computing.to_string(), "it computes: at least 26 ms of CPU time");
    }
}
