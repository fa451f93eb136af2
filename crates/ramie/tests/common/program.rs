//! Processes that run one test of the caller's file, and whose stderr is read as it comes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    panic::Location,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use super::Limit;

/// A process that runs one test of the caller's file, and that is killed in the end.
pub struct Program {
    pub child: Child,
    /// `None` if stderr goes elsewhere.
    reader: Option<BufReader<ChildStderr>>,
    _limit: Limit,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    #[track_caller]
    pub fn start(test: &str) -> Program {
        Program::spawn(test, &[], Stdio::piped())
    }

    /// With further environment variables.
    #[track_caller]
    pub fn start_with(test: &str, variables: &[(&str, &str)]) -> Program {
        Program::spawn(test, variables, Stdio::piped())
    }

    #[track_caller]
    pub fn with_stderr(test: &str, variables: &[(&str, &str)], stderr: Stdio) -> Program {
        Program::spawn(test, variables, stderr)
    }

    #[track_caller]
    fn spawn(test: &str, variables: &[(&str, &str)], stderr: Stdio) -> Program {
        let module = Path::new(Location::caller().file()).file_stem().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("{}::{test}", module.display()), "--exact", "--nocapture"])
            .env_remove("RAMIE_STALL_MS")
            .env_remove("RAMIE_STRANDS")
            .env("RAMIE_TEST_CHILD", "1")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let reader = child.stderr.take().map(BufReader::new);
        Program { child, reader, _limit: Limit::new(test) }
    }

    fn reader(&mut self) -> &mut BufReader<ChildStderr> {
        self.reader.as_mut().expect("stderr is a pipe")
    }

    /// Reads stderr up to the line that contains a text.
    pub fn read_to(&mut self, text: &str) -> String {
        let mut read = String::new();
        loop {
            let start = read.len();
            assert!(self.reader().read_line(&mut read).unwrap() > 0, "'{text}' is not in: {read}");
            if read[start..].contains(text) {
                return read;
            }
        }
    }

    /// Reads stderr up to the end of a report.
    pub fn read_report(&mut self) -> String {
        self.read_to("help:")
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Lets the process end, and returns the rest of stderr.
    pub fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut read = String::new();
        self.reader().read_to_string(&mut read).unwrap();
        assert!(self.child.wait().unwrap().success(), "{read}");
        read
    }
}

/// In a [`Program`]: waits for the end that its starter sends, on a thread of its own.
pub fn wait_for_end() {
    ramie::blocking(|| std::io::stdin().read_to_end(&mut Vec::new()).unwrap());
}
