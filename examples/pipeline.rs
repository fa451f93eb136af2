//! Runs programs with a pipe from each to the next: `pipeline 'seq 100' 'grep 7' 'wc -l'`. A fiber
//! for each pipe carries the bytes and counts them; those of the last pipe are printed.

use std::{env, process::ExitCode};

use ramie::{
    io::{self, Read, Write},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

fn start(index: usize, line: &str) -> io::Result<Child> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("true"));
    // The first program inherits our standard input.
    let stdin = if index == 0 { Stdio::inherit() } else { Stdio::piped() };
    command.args(words).stdin(stdin).stdout(Stdio::piped()).spawn()
}

/// Carries bytes until the source ends or the sink is closed.
fn carry(mut from: ChildStdout, mut to: impl Write) -> io::Result<u64> {
    let mut buffer = [0; 16 * 1024];
    let mut count = 0;
    while let length @ 1.. = from.read(&mut buffer)? {
        match to.write_all(&buffer[..length]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            result => result?,
        }
        count += length as u64;
    }
    Ok(count)
}

/// Starts all programs, or returns the error and leaves none running.
fn start_all(lines: &[String]) -> Option<Vec<Child>> {
    let mut children = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match start(index, line) {
            Ok(child) => children.push(child),
            Err(error) => {
                eprintln!("cannot start '{line}': {error}");
                children.iter_mut().for_each(|child| drop(child.kill()));
                return None;
            }
        }
    }
    Some(children)
}

#[ramie::main]
fn main() -> ExitCode {
    let lines: Vec<String> = env::args().skip(1).collect();
    if lines.is_empty() || lines.iter().any(|line| line.trim().is_empty()) {
        eprintln!("usage: pipeline <command line>...");
        return ExitCode::from(2);
    }
    let Some(mut children) = start_all(&lines) else { return ExitCode::FAILURE };
    let sinks: Vec<_> = children.iter_mut().skip(1).map(|child| child.stdin.take()).collect();
    let mut links = Vec::new();
    for (child, sink) in children.iter_mut().zip(sinks.into_iter().chain([None])) {
        let from = child.stdout.take().expect("it is piped");
        links.push(thread::spawn(move || match sink {
            Some(sink) => carry(from, sink),
            // The last program's.
            None => carry(from, io::stdout()),
        }));
    }
    let mut is_success = true;
    for ((line, child), link) in lines.iter().zip(&mut children).zip(links) {
        let (carried, status) = (link.join().unwrap(), child.wait().expect("it is our child"));
        is_success &= carried.is_ok() && status.success();
        match carried {
            Ok(count) => eprintln!("{line}: {count} bytes, {status}"),
            Err(error) => eprintln!("{line}: its bytes get no further: {error}; {status}"),
        }
    }
    ExitCode::from(u8::from(!is_success))
}
