//! Starts a process for each section, and prints the outcomes.

use std::{
    env,
    process::{Command, ExitCode, Output},
    time::Instant,
};

use super::{CHILD, Section, child::STACK, page};

/// What happens to the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    Try,
    Write,
    Check,
}

/// A host that takes the CPU away looks as if the worker were blocked, so a failure is repeated.
const TRIES: usize = 3;

/// Tries the sections one after another.
pub(crate) fn try_all(sections: &[&Section], plan: Plan) -> ExitCode {
    let start = Instant::now();
    let (mut passed, mut skipped, mut failed) = (Vec::new(), 0, Vec::new());
    for section in sections {
        if let Some(variable) = section.missing() {
            println!("skipped: {}, because {variable} is not set", section.name);
            skipped += 1;
            continue;
        }
        match try_some_times(section) {
            Some(stack) => passed.push((*section, stack)),
            None => failed.push(section.name),
        }
    }
    println!(
        "{} passed, {skipped} skipped, {} failed in {} s {failed:?}",
        passed.len(),
        failed.len(),
        start.elapsed().as_secs()
    );
    // A machine without the servers may try the rest; CI must not.
    let is_refused = !failed.is_empty() || (skipped > 0 && env::var_os("CI").is_some());
    if is_refused {
        return ExitCode::FAILURE;
    }
    match plan {
        Plan::Try => ExitCode::SUCCESS,
        _ if skipped > 0 => {
            println!("skipped: the page, because sections were");
            ExitCode::SUCCESS
        }
        Plan::Write => page::write(&passed),
        Plan::Check => page::check(&passed),
    }
}

/// The bytes of stack that the section took, if it passed.
fn try_some_times(section: &Section) -> Option<usize> {
    for attempt in 1..=TRIES {
        let start = Instant::now();
        let output = try_once(section);
        let stack = stack_of(&output);
        let took = start.elapsed().as_millis();
        if output.status.success() {
            println!("{}: passed, {} KiB of stack, {took} ms", section.name, stack / 1024);
            return Some(stack);
        }
        println!("{}: failed, {}, attempt {attempt}, {took} ms", section.name, output.status);
        print!("{}", String::from_utf8_lossy(&output.stdout));
        print!("{}", String::from_utf8_lossy(&output.stderr));
    }
    None
}

fn try_once(section: &Section) -> Output {
    Command::new("timeout")
        // On SIGQUIT, a section that hangs prints where its fibers wait.
        .args(["--signal=QUIT", "--kill-after=2", "20"])
        .arg(env::current_exe().expect("the path of this program"))
        .args([CHILD, section.name])
        .output()
        .expect("the program timeout")
}

fn stack_of(output: &Output) -> usize {
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes = text.lines().find_map(|line| line.strip_prefix(STACK)?.parse().ok());
    bytes.unwrap_or(0)
}
