//! The part of a backtrace that a user of Ramie wants to read.

use super::BacktraceFrame;

/// The function below which the closure of a strand runs; std has the same mark for `main` and for
/// threads.
const OUTERMOST: &str = "__rust_begin_short_backtrace";
/// Paths of the runtime and of std, with which the innermost calls of a suspended strand begin.
const RUNTIME: &[&str] =
    &["alloc", "core", "corosensei", "ramie", "ramie_coro", "ramie_driver", "ramie_futures", "std"];

/// Leaves out the calls inside of the runtime, but for the one that the program has made, and the
/// calls below the strand's closure. A backtrace that has only such calls stays whole.
pub(super) fn shortened(frames: &[BacktraceFrame]) -> &[BacktraceFrame] {
    let name = |frame: &BacktraceFrame| frame.function.clone().unwrap_or_default();
    let end = frames.iter().position(|frame| name(frame).contains(OUTERMOST));
    let above = &frames[..end.unwrap_or(frames.len())];
    let is_of_program = |frame: &BacktraceFrame| !is_of_runtime(&name(frame));
    let (first, last) =
        (above.iter().position(is_of_program), above.iter().rposition(is_of_program));
    match (first, last) {
        (Some(first), Some(last)) => &above[first.saturating_sub(1)..=last],
        _ => frames,
    }
}

/// Whether a function is one of the runtime, of std, or one without a path, such as the switch and
/// the functions of the C library.
fn is_of_runtime(function: &str) -> bool {
    // `<ramie::net::TcpStream as std::io::Read>::read`, `<&mut T as …>`.
    let path = function.trim_start_matches(['<', '&']);
    let path = path.strip_prefix("mut ").unwrap_or(path);
    match path.split_once("::") {
        Some((root, _)) => RUNTIME.contains(&root),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<BacktraceFrame> {
        let frame = |name: &&str| BacktraceFrame {
            address: 1,
            function: Some((*name).to_owned()),
            file: None,
            line: None,
        };
        names.iter().map(frame).collect()
    }

    fn short(names: &[&str]) -> Vec<String> {
        let frames = frames(names);
        shortened(&frames).iter().map(|frame| frame.function.clone().unwrap()).collect()
    }

    #[test]
    fn the_calls_of_the_program_remain_with_the_one_into_the_runtime() {
        let names = [
            "switch_yield",
            "corosensei::arch::switch",
            "ramie::core::wait::park::park",
            "<ramie::net::TcpStream as std::io::Read>::read",
            "app::read_head",
            "core::ops::function::FnOnce::call_once",
            "app::serve",
            "std::panic::catch_unwind",
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "ramie::core::strand::life::run_to_end",
        ];
        assert_eq!(short(&names), names[3..7]);
    }

    #[test]
    fn a_backtrace_without_a_call_of_the_program_stays_whole() {
        let names = ["switch_yield", "ramie::core::worker::idle", "std::thread::main"];
        assert_eq!(short(&names), names);
        assert!(short(&[]).is_empty());
    }

    #[test]
    fn a_program_that_computes_begins_with_its_own_call() {
        assert_eq!(short(&["ramier::compute", "app::main"]), ["ramier::compute", "app::main"]);
    }
}
