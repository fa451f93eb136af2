//! Refusals of the system: each becomes one sentence that names the cause and the remedy, with exit
//! code 1, and never a panic or a hang.

mod support;

use std::{
    collections::BTreeMap,
    env, fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::{Command, Output},
};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use support::{Folder, RAMIE, assert_sentence, output, ramie, ramie_under, text};

#[test]
fn an_address_in_use() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let output = output(ramie(&format!("serve --hello --addr {address}")));
    assert_sentence(&output, 1, &[&address, "another program", "just ended", "--addr"]);
}

#[test]
fn an_address_of_another_machine() {
    let output = output(ramie("serve --hello --addr 192.0.2.1:8080"));
    assert_sentence(&output, 1, &["192.0.2.1:8080", "no such address"]);
}

/// A copy of the program that every user can run.
fn program_for_all(folder: &Folder) -> PathBuf {
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.0.join("ramie");
    fs::copy(RAMIE, &program).unwrap();
    program
}

#[test]
fn a_port_without_permission() {
    let first_free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if first_free.unwrap_or_default().trim() == "0" {
        return support::skipped("anybody may bind any port here");
    }
    let folder = Folder::new("setpriv");
    let mut command = command_without_rights(&folder);
    command.args(["serve", "--hello", "--addr", "127.0.0.1:1"]);
    assert_sentence(&output(command), 1, &["127.0.0.1:1", "CAP_NET_BIND_SERVICE", "--addr"]);
}

/// The program in a folder, run by a user without rights, also if root runs the test.
fn command_without_rights(folder: &Folder) -> Command {
    let program = program_for_all(folder);
    if !rustix::process::geteuid().is_root() {
        return Command::new(&program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]).arg(&program);
    command
}

#[test]
fn a_directory_without_permission() {
    let folder = Folder::new("locked");
    let locked = folder.0.join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = command_without_rights(&folder);
    command.args(["serve", "--addr", "127.0.0.1:0"]).arg(&locked);
    let path = format!("cannot serve the files of {}", locked.display());
    assert_sentence(&output(command), 1, &[&path, "Permission denied", "chmod +x"]);
}

#[test]
fn too_few_descriptors() {
    // These suffice to load the program, and are too few for a driver.
    let output = output(ramie_under("ulimit -n 4", "run spawn --count 10"));
    assert_sentence(&output, 1, &["ulimit -n"]);
}

#[test]
fn too_few_descriptors_to_listen() {
    for arguments in ["--workers 2", "--processes 2"] {
        let serve = format!("serve --hello --addr 127.0.0.1:0 {arguments}");
        for descriptors in 4..8 {
            let output = output(ramie_under(&format!("ulimit -n {descriptors}"), &serve));
            let message = assert_sentence(&output, 1, &["Too many open files", "ulimit -n"]);
            assert!(
                !message.contains("choose another") && !message.contains("fork first"),
                "{message}"
            );
        }
    }
}

#[test]
fn too_few_descriptors_for_so_many_pairs() {
    for (workload, on) in [("pipe", "fibers"), ("socketpair", "threads"), ("pipe", "hybrid")] {
        let run = format!("run {workload} --pairs 1000 --messages 1 --bytes 1 --on {on}");
        let message = output(ramie_under("ulimit -n 500", &run));
        let parts = ["1000 pairs need 20", "have 500 at most", "ask for 21", "ulimit -Hn 20"];
        assert_sentence(&message, 1, &parts);
    }
}

#[test]
fn messages_for_which_there_is_no_memory() {
    for on in ["fibers", "threads"] {
        let run = format!("run pipe --pairs 1000 --messages 1 --bytes 4294967295 --on {on}");
        assert_sentence(&output(ramie(&run)), 1, &["2000", "of memory", "ask for about"]);
    }
}

#[test]
fn more_stacks_than_address_space() {
    for workload in ["alive --count 1000000", "feed --people 100000 --nutrients 1"] {
        let output = output(ramie_under("ulimit -v 1000000", &format!("run {workload}")));
        assert_sentence(&output, 1, &["fibers need about", "`ulimit -v`", "ask for about"]);
    }
}

#[test]
fn too_little_address_space_for_any() {
    let output = output(ramie_under("ulimit -v 60000", "run spawn --count 2"));
    let message = assert_sentence(&output, 1, &["`ulimit -v`", "raise the limit"]);
    assert!(!message.contains("ask for"), "{message}");
}

/// The estimate before the run ignores the batches of stacks, so near the limit the runtime itself
/// refuses.
#[test]
fn about_as_many_stacks_as_address_space() {
    for people in (1200..=1800).step_by(150) {
        let arguments = format!("run feed --people {people} --nutrients 2");
        let output = output(ramie_under("ulimit -v 600000", &arguments));
        if !output.status.success() {
            assert_sentence(&output, 1, &["fibers", "ulimit -v"]);
        }
    }
}

#[test]
fn a_recursion_deeper_than_the_stack_that_was_asked_for() {
    for on in ["fibers", "coroutines"] {
        for workload in ["recurse", "recurse2"] {
            let mut small = ramie(&format!("run {workload} --depth 100000 --on {on}"));
            small.env("RAMIE_STACK", "262144");
            let cure = "leave RAMIE_STACK unset, which allows 100000";
            assert_sentence(&output(small), 1, &["100000 deep", "256 KiB", "at most", cure]);
        }
    }
    let output = output(ramie("run recurse --depth 4294967295 --on futures"));
    assert_sentence(&output, 1, &["4294967295 deep", "at most", "ulimit -s"]);
}

#[test]
fn a_deep_recursion_gets_the_stack_that_it_needs() {
    for on in ["fibers", "coroutines"] {
        let output = output(ramie(&format!("run recurse2 --depth 3000 --on {on}")));
        assert!(output.status.success(), "{on}: {}", text(&output.stderr));
    }
}

#[test]
fn a_recursion_deeper_than_any_stack() {
    let message = assert_sentence(
        &output(ramie("run recurse --depth 4294967295")),
        1,
        &["4294967295 deep", "1048576 KiB", "ask for "],
    );
    assert!(!message.contains("RAMIE_STACK"), "it was not the cause: {message}");
    let output = output(ramie_under("ulimit -v 500000", "run recurse --depth 4000000"));
    assert_sentence(&output, 1, &["a fiber needs about", "of address space", "raise the limit"]);
}

/// The deepest recursion that is allowed fits into the stack.
#[test]
fn a_recursion_as_deep_as_the_stack() {
    for (on, limit) in [
        ("fibers", "export RAMIE_STACK=262144"),
        ("coroutines", "export RAMIE_STACK=262144"),
        ("futures", "ulimit -s 1024"),
    ] {
        let refused =
            output(ramie_under(limit, &format!("run recurse2 --depth 4294967295 --on {on}")));
        let message = assert_sentence(&refused, 1, &["ask for "]);
        let most =
            message.split("ask for ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let output = output(ramie_under(limit, &format!("run recurse --depth {most} --on {on}")));
        assert!(output.status.success(), "{on}, {most}: {}", text(&output.stderr));
    }
}

#[test]
fn more_stacks_than_memory() {
    for arguments in ["run alive --count 4294967295", "run spawn --count 4294967295"] {
        let output = output(ramie(arguments));
        assert_sentence(&output, 1, &["need about", "of memory", "ask for about"]);
    }
}

/// The advice about memory would otherwise name a number of threads that another limit forbids.
#[test]
fn no_more_threads_are_advised_than_a_process_may_have() {
    let output = output(ramie("run alive --count 4294967295 --on threads"));
    let message = assert_sentence(&output, 1, &["of memory", "ask for about"]);
    let advised = message.split("ask for about ").nth(1).and_then(|rest| rest.split(' ').next());
    let advised: u64 = advised.and_then(|number| number.parse().ok()).expect("a number");
    let mappings = fs::read_to_string("/proc/sys/vm/max_map_count").expect("a sysctl");
    let mappings: u64 = mappings.trim().parse().expect("a number");
    assert!(advised <= mappings / 4, "{message}");
}

#[test]
fn more_threads_than_allowed() {
    let workloads =
        ["alive --count 5000", "ring --size 5000 --hops 5000", "feed --people 5000 --nutrients 1"];
    for workload in workloads {
        let arguments = format!("run {workload} --on threads");
        let output = output(ramie_under("ulimit -v 400000", &arguments));
        assert_sentence(&output, 1, &["only ", " of 5000 threads", "--on fibers"]);
    }
}

/// Past the limit on a user's threads the run says how many there were, and all of them end.
#[test]
fn the_number_of_threads_that_the_system_allowed_is_named() {
    if !rustix::process::geteuid().is_root() {
        return support::skipped("without root, other programs of the user count, too");
    }
    let folder = Folder::new("threads");
    let program = program_for_all(&folder);
    for (workload, wanted) in [("alive --count 900", 900), ("ring --size 800 --hops 900", 800)] {
        let mut command = Command::new("setpriv");
        let script =
            format!("ulimit -u 200; exec {} run {workload} --on threads", program.display());
        command.args(["--reuid", "65534", "--clear-groups", "bash", "-c", &script]);
        let message = assert_sentence(&output(command), 1, &["ulimit -u", "use --on fibers"]);
        let reached = message.strip_prefix("ramie: only ").and_then(|rest| rest.split_once(' '));
        let (reached, rest) = reached.expect("a number");
        assert!((1..200).contains(&reached.parse::<u32>().unwrap()), "{message}");
        assert!(rest.starts_with(&format!("of {wanted} threads")), "{message}");
    }
}

#[test]
fn a_folder_that_cannot_be_made() {
    let output = output(ramie("lab --tiny --out /proc/ramie/lab"));
    assert_sentence(&output, 1, &["/proc/ramie", "--out"]);
}

/// Runs the program under a filter that fails io_uring's system calls with EPERM, as the default
/// profiles of containers do.
fn without_io_uring(arguments: &str, driver: Option<&str>) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "under_filter", "--nocapture"]).env("RAMIE_TEST_UNDER", arguments);
    if let Some(driver) = driver {
        command.env("RAMIE_DRIVER", driver);
    }
    command.output().unwrap()
}

/// Not a test of its own: the child process that sets the filter and then executes the program.
#[test]
fn under_filter() {
    let Ok(arguments) = env::var("RAMIE_TEST_UNDER") else { return };
    const IO_URING: std::ops::RangeInclusive<i64> = 425..=427;
    let rules: BTreeMap<_, _> = IO_URING.map(|call| (call, Vec::new())).collect();
    let filter: BpfProgram = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32),
        env::consts::ARCH.try_into().unwrap(),
    )
    .unwrap()
    .try_into()
    .unwrap();
    seccompiler::apply_filter(&filter).unwrap();
    panic!("{}", ramie(&arguments).exec());
}

#[test]
fn io_uring_forbidden_and_demanded() {
    let output = without_io_uring("run spawn --count 10", Some("uring"));
    let message = assert_sentence(&output, 1, &["io_uring", "seccomp"]);
    assert!(message.contains("RAMIE_DRIVER") || message.contains("poll"), "no cure in: {message}");
}

#[test]
fn io_uring_forbidden_and_not_needed() {
    let output = without_io_uring("run spawn --count 10 --json", None);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\"ops\":10"));
}

#[test]
fn the_doctor_names_seccomp() {
    let output = without_io_uring("doctor", None);
    let message = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(message.contains("driver  poll"), "{message}");
    assert!(message.contains("likely cause") && message.contains("seccomp"), "{message}");
    assert!(!message.contains("RAMIE_DRIVER=poll"), "it polls already: {message}");
}
