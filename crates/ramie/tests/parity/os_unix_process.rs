//! The items of `std::os::unix::process`, in use.

use super::std;
use std::{ffi::OsStr, io, os::unix::process::CommandExt, process::Command};

traits! { CommandExt }

methods! {
    CommandExt {
        fn uid[X: CommandExt](this: &mut X, id: u32) -> &mut Command;
        fn gid[X: CommandExt](this: &mut X, id: u32) -> &mut Command;
        [unsafe] fn pre_exec[X: CommandExt, F](this: &mut X, f: F) -> &mut Command
            where [F: FnMut() -> io::Result<()> + Send + Sync + 'static];
        fn exec[X: CommandExt](this: &mut X) -> io::Error;
        fn arg0[X: CommandExt, S](this: &mut X, arg: S) -> &mut Command where [S: AsRef<OsStr>];
        fn process_group[X: CommandExt](this: &mut X, pgroup: i32) -> &mut Command;
        [unsafe] fn before_exec[X: CommandExt, F](this: &mut X, f: F) -> &mut Command
            where [F: FnMut() -> io::Result<()> + Send + Sync + 'static];
    }
}

left_to_std! {
    std::os::unix::process {
        traits: ExitStatusExt;
        functions: parent_id;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [traits(), methods()].concat()
}
