//! Runs a program under a seccomp filter that refuses io_uring, as container runtimes do.
//!
//! ```sh
//! cargo run --package ramie-driver --example without_ring -- PROGRAM ARGUMENT…
//! ```

use std::{env, os::unix::process::CommandExt, process::Command};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

fn main() {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().expect("usage: without_ring PROGRAM [ARGUMENT]…");
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let filter = SeccompFilter::new(
        calls.into_iter().map(|call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::try_from(env::consts::ARCH).expect("seccompiler knows this architecture"),
    );
    let filter: BpfProgram =
        filter.and_then(TryInto::try_into).expect("three calls make a valid filter");
    // The filter outlives `exec`.
    seccompiler::apply_filter(&filter).expect("this kernel has seccomp");
    let error = Command::new(&program).args(arguments).exec();
    panic!("cannot run {}: {error}", program.to_string_lossy());
}
