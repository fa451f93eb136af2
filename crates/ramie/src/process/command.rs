//! The twin of `std::process::Command`.

use std::{
    ffi::OsStr,
    fmt, io,
    path::Path,
    process::{self, CommandArgs, CommandEnvs, ExitStatus, Output, Stdio},
};

use super::Child;
use crate::op::blocking_io;

/// A description of a process to start; twin of [`std::process::Command`].
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let output = ramie::process::Command::new("echo").arg("hello").output()?;
///     assert_eq!(output.stdout, b"hello\n");
///     std::io::Result::Ok(())
/// })
/// # .unwrap()
/// ```
pub struct Command {
    pub(super) command: process::Command,
    /// Whether the caller has chosen the stream; otherwise the method that starts the process does.
    has_stdin: bool,
    has_stdout: bool,
    has_stderr: bool,
}

impl Command {
    /// Describes a process that runs `program` without arguments, in the environment of this
    /// process.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        let command = process::Command::new(program);
        Command { command, has_stdin: false, has_stdout: false, has_stderr: false }
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.command.args(args);
        self
    }

    /// Sets an environment variable of the child.
    pub fn env<K, V>(&mut self, key: K, val: V) -> &mut Command
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.command.env(key, val);
        self
    }

    /// Sets environment variables of the child.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.command.envs(vars);
        self
    }

    /// Removes an environment variable, so that the child does not inherit it.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.command.env_remove(key);
        self
    }

    /// Makes the child's environment empty.
    pub fn env_clear(&mut self) -> &mut Command {
        self.command.env_clear();
        self
    }

    /// Sets the working directory of the child.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.command.current_dir(dir);
        self
    }

    /// Chooses the child's standard input.
    pub fn stdin<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.has_stdin = true;
        self.command.stdin(cfg);
        self
    }

    /// Chooses the child's standard output.
    pub fn stdout<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.has_stdout = true;
        self.command.stdout(cfg);
        self
    }

    /// Chooses the child's standard error.
    pub fn stderr<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.has_stderr = true;
        self.command.stderr(cfg);
        self
    }

    /// Starts the process. Streams that were not chosen are inherited.
    ///
    /// # Blocking
    /// Parks the fiber until the child has executed its program, or that has failed.
    ///
    /// # Cancellation
    /// A cancel point before the start: in a cancelled scope no process is started. A start that
    /// has begun is completed.
    ///
    /// # Errors
    /// Those of [`std::process::Command::spawn`].
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(Stdio::inherit, Stdio::inherit)
    }

    /// Runs the process to its end and collects its output. Streams that were not chosen are
    /// captured; the standard input is empty.
    ///
    /// # Blocking
    /// Parks the fiber until the process has ended and both streams are closed.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled, the process is killed (SIGKILL) and waited for, as
    /// by [`Child::wait_with_output`].
    ///
    /// # Errors
    /// Those of [`std::process::Command::output`].
    #[track_caller]
    pub fn output(&mut self) -> io::Result<Output> {
        self.spawn_with(Stdio::null, Stdio::piped)?.wait_with_output()
    }

    /// Runs the process to its end. Streams that were not chosen are inherited.
    ///
    /// # Blocking
    /// Parks the fiber until the process has ended.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled, the process is killed (SIGKILL) and waited for,
    /// because no handle to the process is left.
    ///
    /// # Errors
    /// Those of [`std::process::Command::status`].
    #[track_caller]
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        let mut child = self.spawn()?;
        child.wait().inspect_err(|error| child.end_if_cancelled(error))
    }

    #[track_caller]
    fn spawn_with(&mut self, input: fn() -> Stdio, outputs: fn() -> Stdio) -> io::Result<Child> {
        if !self.has_stdin {
            self.command.stdin(input());
        }
        if !self.has_stdout {
            self.command.stdout(outputs());
        }
        if !self.has_stderr {
            self.command.stderr(outputs());
        }
        blocking_io(|| self.command.spawn()).map(Child::from)
    }

    /// Returns the program.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.command.get_program()
    }

    /// Lists the arguments.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.command.get_args()
    }

    /// Lists the changes of the environment; the value of a removed variable is `None`.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.command.get_envs()
    }

    /// Returns the working directory, if one was set.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.command.get_current_dir()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}
