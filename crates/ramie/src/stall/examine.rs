//! Finds the fiber that stalls a worker, and the cause.

use std::time::Duration;

use ramie_coro::saved::SavedRegisters;

use super::{
    calls, interrupted,
    report::{LockHolders, NAMED, StallCause},
    suspicion::Times,
    thread_state::{CallPlace, Doing, doing, usage},
};
use crate::{
    core::worker::{ParkedFiber, RunningFiber, StackCopy, StackRoom, Turn, WorkerView},
    unwind,
};

/// What an examination has found.
pub(super) enum Examination {
    /// Nothing for which the fiber answers, so far.
    Nothing,
    /// The thread is stopped, and its time does not count.
    Stopped,
    Stall(RunningFiber, StallCause, Doing),
}

/// Examines a worker whose fiber has used `times` in a turn, on the thread of that id.
pub(super) fn examine(
    view: &WorkerView,
    thread: i32,
    turn: Turn,
    times: &Times,
    limit: Duration,
) -> Examination {
    // A fiber that is alone keeps nobody waiting.
    let (strands, unstarted) = view.strands();
    if strands < 2 {
        return Examination::Nothing;
    }
    let has_not_run = || usage(thread).is_some_and(|now| now.runs == times.runs);
    let Some(doing) = doing(thread) else { return Examination::Nothing };
    let cause = match doing {
        Doing::Stopped => return Examination::Stopped,
        doing if !is_to_blame(doing, times, limit, has_not_run) => {
            return Examination::Nothing;
        }
        _ if times.cpu >= limit => StallCause::Computing(times.cpu),
        Doing::Running => return Examination::Nothing,
        Doing::PageFault => StallCause::PageFault,
        Doing::Blocked => StallCause::SystemCall("that /proc does not name here".to_owned()),
        Doing::Call { number, arguments, .. } => match calls::awaited_futex(number, &arguments) {
            None => StallCause::SystemCall(calls::name_of(number)),
            Some(futex) => {
                let parked = view.parked(futex, has_not_run);
                let Some(parked) = parked else { return Examination::Nothing };
                let is_cut = parked.is_cut;
                let more = parked.fibers.len().saturating_sub(NAMED);
                let lines = parked.fibers.iter().take(NAMED).map(describe).collect();
                StallCause::Lock(LockHolders { lines, more, unstarted, is_cut })
            }
        },
    };
    // Last, because it confirms that the turn is still the same.
    match view.running(turn) {
        Some(fiber) => {
            let cause = with_hook(cause, fiber.is_in_panic_hook, times.cpu);
            Examination::Stall(fiber, cause, doing)
        }
        None => Examination::Nothing,
    }
}

/// The cause for a fiber that may be in the panic hook, which has used `cpu`. The hook computes,
/// and reads the symbols from the mapped program. If it blocks its thread by a system call, that is
/// the cause all the same, and the report mentions the hook besides.
fn with_hook(cause: StallCause, is_in_panic_hook: bool, cpu: Duration) -> StallCause {
    match cause {
        StallCause::Computing(_) | StallCause::PageFault if is_in_panic_hook => {
            StallCause::PanicHook(cpu)
        }
        cause => cause,
    }
}

/// Copies the frames of the fiber in which a stall was found; `None` if it has gone on since, and
/// in a build that makes no backtraces.
pub(super) fn frames_of(
    view: &WorkerView,
    thread: i32,
    turn: Turn,
    times: &Times,
    fiber: &RunningFiber,
    doing: Doing,
) -> Option<StackCopy> {
    if !unwind::IS_AVAILABLE {
        return None;
    }
    let frames = match doing {
        Doing::Running => interrupted::frames_of(thread, fiber.stack),
        Doing::Call { place: CallPlace { stack, instruction }, .. } => {
            // The kernel does not show the frame pointer.
            let registers = SavedRegisters { instruction, stack, frame: 0 };
            let mut room = StackRoom::new();
            let is_copied = room.fill(registers, fiber.stack)
                && usage(thread).is_some_and(|now| now.runs == times.runs);
            is_copied.then(|| room.into_copy())
        }
        Doing::Stopped | Doing::PageFault | Doing::Blocked => None,
    };
    frames.filter(|_| view.running(turn).is_some_and(|now| now == *fiber))
}

/// Whether the fiber is to blame for the times of its thread.
///
/// The kernel counts a wait for a CPU when it ends. So if the thread may be waiting for a CPU, or
/// has got one since its times were taken, a wait for a CPU may be among the time in which it seems
/// to have been blocked, and only its CPU time counts.
fn is_to_blame(
    doing: Doing,
    times: &Times,
    limit: Duration,
    has_not_run: impl FnOnce() -> bool,
) -> bool {
    times.cpu >= limit || (doing != Doing::Running && has_not_run())
}

fn describe(fiber: &ParkedFiber) -> String {
    let mut line = fiber.label.clone();
    match fiber.wait {
        Some((kind, place)) => line.push_str(&format!(" waits for {kind} at {place}")),
        None => line.push_str(" waits for its turn to run"),
    }
    if !fiber.closure.is_empty() {
        line.push_str(&format!("; it runs {}", fiber.closure));
    }
    if fiber.refers {
        line.push_str(" (its stack refers to what is waited for)");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_cpu_that_is_not_counted_yet_is_no_stall() {
        let limit = Duration::from_millis(25);
        let times = |cpu| {
            let [total, blocked] = [60, 59].map(Duration::from_millis);
            Times { total, cpu: Duration::from_millis(cpu), blocked, runs: 7 }
        };
        let is_to_blame =
            |doing, cpu, has_run: bool| super::is_to_blame(doing, &times(cpu), limit, || !has_run);
        // It was blocked when its times were taken, or it waited for a CPU until it has run.
        assert!(is_to_blame(Doing::Blocked, 1, false));
        assert!(!is_to_blame(Doing::Blocked, 1, true));
        assert!(!is_to_blame(Doing::Running, 1, false));
        assert!([false, true].map(|has_run| is_to_blame(Doing::Running, 25, has_run)) == [true; 2]);
    }

    /// The symbols of a backtrace are read from the mapped program, so a page fault there needs no
    /// advice about mapped files.
    #[test]
    fn the_panic_hook_is_the_cause_of_what_it_computes_and_reads() {
        let cpu = Duration::from_millis(3);
        let computing = StallCause::Computing(Duration::from_millis(26));
        let (hook, fault) = (StallCause::PanicHook(cpu), StallCause::PageFault);
        let call = StallCause::SystemCall("write".to_owned());
        let lock = StallCause::Lock(LockHolders::default());
        let causes = [(computing, true), (fault, true), (call, false), (lock, false)];
        for (cause, is_of_hook) in causes {
            assert_eq!(with_hook(cause.clone(), false, cpu), cause);
            let expected = if is_of_hook { &hook } else { &cause };
            assert_eq!(with_hook(cause.clone(), true, cpu), *expected);
        }
    }
}
