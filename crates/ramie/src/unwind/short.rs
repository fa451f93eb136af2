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
    let is_outermost = |name: &String| name.contains(OUTERMOST);
    let end = frames.iter().position(|frame| frame.function.as_ref().is_some_and(is_outermost));
    let above = &frames[..end.unwrap_or(frames.len())];
    let is_of_program = |frame: &BacktraceFrame| !is_of_runtime(frame);
    let (first, last) =
        (above.iter().position(is_of_program), above.iter().rposition(is_of_program));
    match (first, last) {
        (Some(first), Some(last)) => &above[first.saturating_sub(1)..=last],
        _ => frames,
    }
}

/// Whether a call is one of the runtime or of std.
fn is_of_runtime(frame: &BacktraceFrame) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    // `<ramie::net::TcpStream as std::io::Read>::read`, `<&mut T as …>`.
    let path = function.trim_start_matches(['<', '&']);
    let path = path.strip_prefix("mut ").unwrap_or(path);
    match path.split_once("::") {
        // `park<app::main::{closure_env#0}>` has no path: the one there is that of an argument.
        Some((root, _)) if !root.contains('<') => RUNTIME.contains(&root),
        _ => frame.file.as_deref().is_none_or(is_file_of_runtime),
    }
}

/// Whether a function without a path is of the runtime, by its file. Such are the switch and the
/// functions of the C library, and with `debug = "line-tables-only"` each inlined function.
fn is_file_of_runtime(file: &str) -> bool {
    // `crates/ramie` of `crates/ramie/src/unwind/short.rs`; the sources of a version in a registry
    // lie in `ramie-0.1.0`. The names of the crates below begin with the same word.
    let own = file!().strip_suffix("/src/unwind/short.rs").unwrap_or(file!());
    let own = own.rfind("/ramie").map_or(own, |at| &own[..at + "/ramie".len()]);
    let is_own = file.split_once(own).is_some_and(|(_, rest)| {
        // Not `tests/` or `examples/`, which are programs.
        rest.split_once('/').is_some_and(|(_, path)| path.starts_with("src/"))
    });
    let foreign = ["/rustlib/src/rust/", "/rustc/", "/corosensei-"];
    !file.ends_with(".rs") || is_own || foreign.iter().any(|part| file.contains(part))
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

    /// As `debug = "line-tables-only"` makes them: an inlined function has no path.
    #[test]
    fn calls_without_paths_are_known_by_their_files() {
        let library = "/root/.rustup/lib/rustlib/src/rust/library/core/src/panic/unwind_safe.rs";
        let calls = [
            ("switch_yield", "/registry/corosensei-0.3.4/src/unwind.rs"),
            ("park<app::main::{closure_env#0}>", concat!("/x/", file!())),
            ("lock<()>", concat!("/x/", file!())),
            ("{closure#0}", "/app/src/main.rs"),
            ("call_once<(), app::main::{closure_env#0}>", library),
            ("catch<(), app::main::{closure_env#0}>", concat!("/x/", file!())),
            ("__rust_begin_short_backtrace", concat!("/x/", file!())),
        ];
        let mut frames = frames(&calls.map(|(name, _)| name));
        for (frame, (_, file)) in frames.iter_mut().zip(calls) {
            frame.file = Some(file.into());
        }
        let names: Vec<_> =
            shortened(&frames).iter().map(|f| f.function.clone().unwrap()).collect();
        assert_eq!(names, ["lock<()>", "{closure#0}"]);
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
