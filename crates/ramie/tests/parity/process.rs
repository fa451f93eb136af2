//! The items of `std::process`, in use.

use super::std;
use std::{
    ffi::OsStr,
    fmt::Debug,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    panic::{RefUnwindSafe, UnwindSafe},
    path::Path,
    process::{
        Child, ChildStderr, ChildStdin, ChildStdout, Command, CommandArgs, CommandEnvs, ExitStatus,
        Output, Stdio,
    },
};

types! { Child, ChildStderr, ChildStdin, ChildStdout, Command }

fields! {
    Child { stdin: Option<ChildStdin>, stdout: Option<ChildStdout>, stderr: Option<ChildStderr> }
}

methods! {
    Child {
        fn kill(this: &mut Child) -> io::Result<()>;
        fn id(this: &Child) -> u32;
        fn wait(this: &mut Child) -> io::Result<ExitStatus>;
        fn try_wait(this: &mut Child) -> io::Result<Option<ExitStatus>>;
        fn wait_with_output(this: Child) -> io::Result<Output>;
    }
    Command {
        fn new[S: AsRef<OsStr>](program: S) -> Command;
        fn arg[S: AsRef<OsStr>](this: &mut Command, arg: S) -> &mut Command;
        fn args[I, S](this: &mut Command, args: I) -> &mut Command
            where [I: IntoIterator<Item = S>, S: AsRef<OsStr>];
        fn env[K, V](this: &mut Command, key: K, val: V) -> &mut Command
            where [K: AsRef<OsStr>, V: AsRef<OsStr>];
        fn envs[I, K, V](this: &mut Command, vars: I) -> &mut Command
            where [I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>];
        fn env_remove[K: AsRef<OsStr>](this: &mut Command, key: K) -> &mut Command;
        fn env_clear(this: &mut Command) -> &mut Command;
        fn current_dir[P: AsRef<Path>](this: &mut Command, dir: P) -> &mut Command;
        fn stdin[T: Into<Stdio>](this: &mut Command, cfg: T) -> &mut Command;
        fn stdout[T: Into<Stdio>](this: &mut Command, cfg: T) -> &mut Command;
        fn stderr[T: Into<Stdio>](this: &mut Command, cfg: T) -> &mut Command;
        fn spawn(this: &mut Command) -> io::Result<Child>;
        fn output(this: &mut Command) -> io::Result<Output>;
        fn status(this: &mut Command) -> io::Result<ExitStatus>;
        fn get_program(this: &Command) -> &OsStr;
        fn get_args(this: &Command) -> CommandArgs<'_>;
        fn get_envs(this: &Command) -> CommandEnvs<'_>;
        fn get_current_dir(this: &Command) -> Option<&Path>;
    }
}

impls! {
    [] Child: [Debug] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] ChildStderr: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [IntoRawFd] [Read] [RefUnwindSafe]
        [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<ChildStderr>];
    [] Stdio: [From<ChildStderr>];
    [] ChildStdin: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [IntoRawFd] [Write] [RefUnwindSafe]
        [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<ChildStdin>];
    [] Stdio: [From<ChildStdin>];
    [] &ChildStdin: [Write];
    [] ChildStdout: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [IntoRawFd] [Read] [RefUnwindSafe]
        [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<ChildStdout>];
    [] Stdio: [From<ChildStdout>];
    [] Command: [CommandExt] [Debug] [Send] [Sync] [Unpin];
}

left_to_std! {
    std::process {
        types: CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio;
        traits: Termination;
        functions: abort, exit, id;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), fields(), methods(), impls()].concat()
}
