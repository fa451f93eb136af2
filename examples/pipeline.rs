//! Runs programs with a pipe from each to the next: `pipeline 'seq 100' 'grep 7' 'wc -l'`. A fiber
//! a link carries the bytes and counts them; the last link's are printed.

use std::{env, process::ExitCode};

use ramie::{
    io::{self, Read, Write},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

fn start(index: usize, line: &str) -> io::Result<Child> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("true"));
    // The first program reads what we would read.
    let stdin = if index == 0 { Stdio::inherit() } else { Stdio::piped() };
    command.args(words).stdin(stdin).stdout(Stdio::piped()).spawn()
}

/// Carries bytes until the source ends, or the sink wants no more.
fn carry(mut from: ChildStdout, mut to: impl Write) -> u64 {
    let mut buffer = [0; 16 * 1024];
    let mut count = 0;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
        count += length as u64;
    }
    count
}

#[ramie::main]
fn main() -> io::Result<ExitCode> {
    let lines: Vec<String> = env::args().skip(1).collect();
    if lines.iter().all(|line| line.trim().is_empty()) {
        eprintln!("usage: pipeline <command line>...");
        return Ok(ExitCode::from(2));
    }
    let started = lines.iter().enumerate().map(|(index, line)| start(index, line));
    let mut children = started.collect::<io::Result<Vec<_>>>()?;
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
        let (count, status) = (link.join().unwrap(), child.wait()?);
        eprintln!("{line}: {count} bytes, {status}");
        is_success &= status.success();
    }
    Ok(ExitCode::from(u8::from(!is_success)))
}
