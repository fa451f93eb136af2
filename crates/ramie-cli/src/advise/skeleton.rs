//! The code skeletons: programs that are composed of the recommended engine, of the work of a step
//! and of the kind of wait, with the numbers of the description.
//!
//! The parts are files in `skeleton/`. The test `skeletons` compiles each engine with each wait,
//! and the waits also with `std` in place of `ramie`.

use ramie_workloads::{Mix, mix::WaitFor};

use super::arm::MixArm;
use crate::workload::Engine;

/// A program to start from.
pub(super) fn of(arm: MixArm, mix: &Mix) -> String {
    let (about, engine) = match arm.on {
        Engine::Threads => (THREADS, include_str!("skeleton/threads.rs.in")),
        Engine::Hybrid => (HYBRID, include_str!("skeleton/hybrid.rs.in")),
        Engine::Processes => (PROCESSES, include_str!("skeleton/processes.rs.in")),
        _ => (FIBERS, include_str!("skeleton/fibers.rs.in")),
    };
    let engine = match arm.workers {
        Some(width) => with(engine, "WIDTH: usize = 2;", &format!("WIDTH: usize = {width};")),
        None => engine.to_owned(),
    };
    let strands = format!("STRANDS: usize = {};", mix.concurrency);
    let engine = with(&engine, "STRANDS: usize = 100;", &strands);
    let compute = include_str!("skeleton/compute.rs.in");
    let compute = with(compute, "from_micros(5)", &format!("from_micros({})", mix.cpu_us));
    format!("{about}{engine}{}{compute}", wait(arm.on, mix))
}

const FIBERS: &str = "\
//! Fibers on one worker: one CPU runs all of them, so they never wait for another CPU's cache.

";
const HYBRID: &str = "\
//! A hybrid: fibers on several workers. A fiber stays on the worker where it starts.

";
const PROCESSES: &str = "\
//! Several processes, each with fibers on one worker. They share no memory, and a supervisor starts
//! a process again if it fails.

";
const THREADS: &str = "\
//! OS threads: the kernel schedules them, and any library may block them.

";

/// The functions that wait, and call for the work of a step.
fn wait(on: Engine, mix: &Mix) -> String {
    let text = match mix.wait {
        WaitFor::Timer => include_str!("skeleton/timer.rs.in"),
        WaitFor::Socket => include_str!("skeleton/socket.rs.in"),
        WaitFor::Pipe => include_str!("skeleton/pipe.rs.in"),
        WaitFor::File => include_str!("skeleton/file.rs.in"),
        WaitFor::Lock => include_str!("skeleton/lock.rs.in"),
    };
    let text = with(text, "from_micros(200)", &format!("from_micros({})", mix.wait_us));
    let text = with(&text, "about 200 µs", &format!("about {} µs", mix.wait_us));
    match (on, mix.blocking) {
        (Engine::Threads, _) => text.replace("ramie::", "std::"),
        (_, true) => blocking(&text.replace("ramie::", "std::")),
        (_, false) => text,
    }
}

/// Moves the call that waits to the blocking pool, because a library makes it that blocks the OS
/// thread.
fn blocking(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("wait(") {
        Some(rest) => {
            let call = rest.trim_end_matches("?;");
            let why = "// The library blocks the OS thread, so the call runs on another one.";
            format!("        {why}\n        ramie::blocking(|| wait({call})?;\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn with(text: &str, from: &str, to: &str) -> String {
    text.replace(from, to)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::{super::arm::tests::MIX, *};

    const ENGINES: [(Engine, bool); 4] = [
        (Engine::Hybrid, true),
        (Engine::Processes, true),
        (Engine::Fibers, false),
        (Engine::Threads, false),
    ];

    fn text(on: Engine, mix: &Mix) -> String {
        of(MixArm { on, workers: Some(7) }, mix)
    }

    #[test]
    fn the_numbers_are_the_described_ones() {
        for (on, has_width) in ENGINES {
            for wait in WaitFor::value_variants() {
                let mix = Mix { concurrency: 12_345, cpu_us: 77, wait_us: 888, wait: *wait, ..MIX };
                let text = text(on, &mix);
                assert_eq!(text.contains("const WIDTH: usize = 7;"), has_width, "{text}");
                assert!(text.contains("const STRANDS: usize = 12345;"), "{text}");
                assert!(text.contains("from_micros(77)"), "{text}");
                let wait = match wait {
                    WaitFor::Timer => "const WAIT: Duration = Duration::from_micros(888);",
                    WaitFor::Lock => "const HELD: Duration = Duration::from_micros(888);",
                    WaitFor::Socket | WaitFor::Pipe | WaitFor::File => "about 888 µs",
                };
                assert!(text.contains(wait) && !text.contains("200"), "{text}");
                assert!(text.starts_with("//! ") && text.contains("fn main()"), "{text}");
            }
        }
    }

    #[test]
    fn the_wait_is_the_described_one() {
        for (wait, part) in [
            (WaitFor::Timer, "thread::sleep(WAIT)"),
            (WaitFor::Socket, "net::TcpStream::connect(SERVER)"),
            (WaitFor::Pipe, "process::Command::new(SERVER)"),
            (WaitFor::File, "fs::File::open(FILE)"),
            (WaitFor::Lock, "thread::sleep(HELD)"),
        ] {
            let mix = Mix { wait, ..MIX };
            assert!(text(Engine::Fibers, &mix).contains(&format!("ramie::{part}")), "{part}");
            assert!(text(Engine::Threads, &mix).contains(&format!("std::{part}")), "{part}");
            assert!(!text(Engine::Threads, &mix).contains("ramie"), "threads need no Ramie");
            let mix = Mix { blocking: true, ..mix };
            let blocking = text(Engine::Hybrid, &mix);
            assert!(blocking.contains(&format!("std::{part}")), "{blocking}");
            assert_eq!(blocking.matches("ramie::blocking(|| wait(").count(), 1, "{blocking}");
            assert!(!text(Engine::Threads, &mix).contains("blocking("), "threads may block");
        }
    }
}
