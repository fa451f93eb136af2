//! The load generator of `ramie run http`, started by the bench.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use ramie_workloads::http::LoadReport;

use crate::process::{KillOnDrop, pinned};

/// What a generator sends.
pub struct Requests {
    pub connections: u16,
    pub count: u64,
    /// The length of the body that it expects.
    pub body: u32,
}

/// A generator whose connections are open and have answered one request each.
pub struct Generator {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: KillOnDrop,
}

impl Generator {
    /// Starts it on a CPU, and waits until it is ready.
    pub fn start(
        ramie: &Path,
        cpu: usize,
        address: &str,
        requests: &Requests,
    ) -> Result<Self, String> {
        let mut command = Command::new(ramie);
        command.arg("load-generator").args([
            format!("--body={}", requests.body),
            format!("--connections={}", requests.connections),
            format!("--requests={}", requests.count),
        ]);
        command.arg(address);
        let mut command = pinned(&[cpu], command);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = KillOnDrop(child.map_err(|error| error.to_string())?);
        let (input, output) = child.0.stdin.take().zip(child.0.stdout.take()).ok_or_else(failed)?;
        let lines = BufReader::new(output).lines();
        let mut generator = Generator { input, lines, _child: child };
        generator.line()?;
        Ok(generator)
    }

    /// Sends all requests. The connections stay open until the generator is dropped.
    pub fn run(&mut self) -> Result<LoadReport, String> {
        self.input.write_all(b"!").map_err(|error| error.to_string())?;
        serde_json::from_str(&self.line()?).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        self.lines.next().and_then(Result::ok).ok_or_else(failed)
    }
}

fn failed() -> String {
    "the load generator has failed".to_owned()
}
