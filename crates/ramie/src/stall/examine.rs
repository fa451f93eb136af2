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
    core::worker::{ParkedFiber, RunningFiber, StackCopy, Turn, WorkerView},
    unwind::{self, Backtrace},
};

/// What an examination has found.
pub(super) enum Examination {
    /// Nothing for which the fiber answers, so far.
    Nothing,
    /// The thread is stopped, and its time does not count.
    Stopped,
    Stall(RunningFiber, StallCause, Option<Backtrace>),
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
    let doing = doing(thread);
    let cause = match doing {
        None => return Examination::Nothing,
        Some(Doing::Stopped) => return Examination::Stopped,
        Some(doing) if !is_to_blame(doing, times, limit, has_not_run) => {
            return Examination::Nothing;
        }
        Some(_) if times.cpu >= limit => StallCause::Computing(times.cpu),
        Some(Doing::Running) => return Examination::Nothing,
        Some(Doing::PageFault) => StallCause::PageFault,
        Some(Doing::Blocked) => StallCause::SystemCall("that /proc does not name here".to_owned()),
        Some(Doing::Call { number, arguments, .. }) => {
            match calls::awaited_futex(number, &arguments) {
                None => StallCause::SystemCall(calls::name_of(number)),
                Some(futex) => {
                    let parked = view.parked(futex, has_not_run);
                    let Some(parked) = parked else { return Examination::Nothing };
                    let is_cut = parked.is_cut;
                    let more = parked.fibers.len().saturating_sub(NAMED);
                    let lines = parked.fibers.iter().take(NAMED).map(describe).collect();
                    StallCause::Lock(LockHolders { lines, more, unstarted, is_cut })
                }
            }
        }
    };
    let calls = calls_of(thread, doing, has_not_run);
    // Last, because it confirms that the turn is still the same.
    match view.running(turn) {
        Some(fiber) => Examination::Stall(fiber, cause, calls),
        None => Examination::Nothing,
    }
}

/// The calls in which the fiber of a thread is, if this build makes backtraces.
fn calls_of(
    thread: i32,
    doing: Option<Doing>,
    has_not_run: impl Fn() -> bool,
) -> Option<Backtrace> {
    if !unwind::IS_AVAILABLE {
        return None;
    }
    match doing? {
        Doing::Running => Backtrace::of(&interrupted::frames_of(thread)?),
        Doing::Call { place: CallPlace { stack, instruction }, .. } => {
            // The kernel does not tell the frame pointer.
            let registers = SavedRegisters { instruction, stack, frame: 0 };
            let frames = StackCopy::from_registers(registers).filter(|_| has_not_run())?;
            Backtrace::without_frame_pointer(&frames)
        }
        Doing::Stopped | Doing::PageFault | Doing::Blocked => None,
    }
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
}
