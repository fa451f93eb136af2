//! The responder of `mix`: a process of its own that answers the requests of strands over sockets
//! and pipes. It is a process of its own so that its CPU time is not in the figures of the strands.
//!
//! It prints the name on which it listens and runs until its standard input ends, which happens
//! when its parent process ends.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::{linux::net::SocketAddrExt, unix::net},
    process::{Child, Command, Stdio},
    thread,
};

use ramie::os::unix::net::UnixListener;
use ramie_workloads::mix;

use super::descriptors;
use crate::{
    child,
    failure::Failure,
    output,
    runtime::{self, RuntimePlan},
};

/// The command of the program that is the responder.
pub(crate) const COMMAND: &str = "responder";

/// A responder; killed when dropped.
#[derive(Debug)]
pub(super) struct Responder {
    process: Child,
    name: String,
}

impl Responder {
    pub(super) fn start() -> Result<Self, Failure> {
        let cannot = |why: &str| Failure::other(format!("cannot start the responder: {why}"));
        let process = child::own_program().and_then(|program| {
            let mut command = Command::new(program);
            command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
            command.stderr(Stdio::piped()).spawn()
        });
        let process = process.map_err(|error| cannot(&format!("{error}; try again")))?;
        let mut responder = Responder { process, name: String::new() };
        if let Some(stdout) = responder.process.stdout.take() {
            // If it fails, the line is empty, and its stderr has the reason.
            let _ = BufReader::new(stdout).read_line(&mut responder.name);
        }
        responder.name.truncate(responder.name.trim_end().len());
        if responder.name.is_empty() {
            let mut complaint = String::new();
            if let Some(stderr) = &mut responder.process.stderr {
                let _ = stderr.read_to_string(&mut complaint);
            }
            return Err(cannot(complaint.trim().trim_start_matches("ramie: ")));
        }
        Ok(responder)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // It may have been killed by somebody else.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the responder in this process.
pub(crate) fn respond() -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::other(format!("cannot listen ({error})"));
    descriptors::raise_to_hard_limit();
    let (listener, name) = listen().map_err(cannot)?;
    let workers = half_of_the_cpus();
    let runtime = RuntimePlan::of(workers).build()?;
    let answers = move || {
        // Only now, because the runtime may fail to start.
        output::line(&name)?;
        ramie::fiber::spawn(|| {
            let _ = ramie::io::stdin().lock().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        mix::respond(&UnixListener::from(listener)).map_err(cannot)
    };
    runtime::run(&runtime, answers)?
}

/// The workers of a process that must leave CPUs to the strands which are measured.
pub(super) fn half_of_the_cpus() -> usize {
    (thread::available_parallelism().map_or(1, usize::from) / 2).max(1)
}

/// Listens on an abstract name that nobody else uses.
fn listen() -> io::Result<(net::UnixListener, String)> {
    let mut number = 0;
    loop {
        let name = format!("ramie-responder-{}-{number}", std::process::id());
        let address = net::SocketAddr::from_abstract_name(&name)?;
        match net::UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok((listener, name)),
            // Of a process with the same id in another namespace.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => number += 1,
            Err(error) => return Err(error),
        }
    }
}
