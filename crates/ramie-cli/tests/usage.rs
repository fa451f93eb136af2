//! Wrong command lines: one sentence, exit code 2.

mod support;

use std::{
    ffi::OsStr,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, net::UnixDatagram},
    },
};

use support::{RAMIE, assert_sentence, output, ramie, text};

#[track_caller]
fn wrong(arguments: &str, parts: &[&str]) {
    assert_sentence(&output(ramie(arguments)), 2, parts);
}

#[test]
fn zero_and_negative_numbers_are_refused() {
    wrong("run feed --people 0 --nutrients 10", &["invalid value `0` for --people", "1 or more"]);
    wrong("run feed --people -3 --nutrients 10", &["invalid value `-3` for --people", "1 or more"]);
    wrong("run feed --people 3 --nutrients -1", &["invalid value `-1` for --nutrients"]);
    wrong("run ring --size 0 --hops 1", &["invalid value `0` for --size"]);
    wrong("run ring --size 1 --hops -1", &["invalid value `-1` for --hops"]);
    wrong("run spawn --count 0", &["invalid value `0` for --count"]);
    wrong("run alive --count -1", &["invalid value `-1` for --count"]);
    wrong("run switch --count 0", &["invalid value `0` for --count"]);
    wrong("run basic --yields 0", &["invalid value `0` for --yields"]);
    wrong("run recurse --depth -1", &["invalid value `-1` for --depth"]);
    wrong("run recurse2 --depth 0", &["invalid value `0` for --depth"]);
    wrong("run pipe --pairs 0 --messages 1 --bytes 1", &["invalid value `0` for --pairs"]);
    wrong(
        "run socketpair --pairs 1 --messages -2 --bytes 1",
        &["invalid value `-2` for --messages"],
    );
    wrong("run pipe --pairs 1 --messages 1 --bytes 0", &["invalid value `0` for --bytes"]);
    wrong("run server --clients 0", &["invalid value `0` for --clients"]);
    wrong("run switch --count 1 --repeat 0", &["invalid value `0` for --repeat"]);
    wrong("run switch --count 1 --workers 0", &["invalid value `0` for --workers"]);
    wrong("serve --hello --workers -2", &["invalid value `-2` for --workers"]);
}

#[test]
fn words_and_fractions_for_numbers_are_refused() {
    for bad in ["ten", "1.5", "1e3", "0x10", "1_000", "½"] {
        wrong(&format!("run spawn --count {bad}"), &[&format!("`{bad}`"), "whole number"]);
    }
}

#[test]
fn numbers_that_are_too_large_are_refused() {
    wrong("run feed --people 1 --nutrients 4294967296", &["too large", "at most 4294967295"]);
    wrong("run ring --size 1 --hops 18446744073709551616", &["too large"]);
    wrong("run ring --size 1 --hops 4294967296", &["--hops", "at most 4294967295"]);
    wrong("run switch --count 4294967296", &["--count", "at most 4294967295"]);
    wrong(
        "run spawn --count 1 --workers 5000",
        &["invalid value `5000` for --workers", "at most 1024"],
    );
    wrong("serve --hello --workers 1025", &["invalid value `1025` for --workers", "at most 1024"]);
}

#[test]
fn missing_numbers_are_named() {
    wrong("run feed", &["missing", "--people", "--nutrients", "ramie run feed --help"]);
    wrong("run ring --size 3", &["missing --hops"]);
    wrong("run basic", &["missing --yields"]);
    wrong("run pipe --pairs 2", &["missing --messages", "--bytes", "ramie run pipe --help"]);
    wrong("run recurse2", &["missing --depth"]);
    wrong("run", &["missing workload", "ramie run --help"]);
    wrong("lab --out", &["--out needs a value", "ramie lab --help"]);
    wrong("serve", &["--hello"]);
}

#[test]
fn unknown_words_are_answered_with_the_likely_one() {
    wrong("run nope", &["unknown workload `nope`", "ramie run --help"]);
    wrong("run fed --people 1", &["unknown workload `fed`", "did you mean feed?"]);
    wrong("run feed --peple 1", &["unknown argument --peple", "--people"]);
    for (workload, offered) in [
        ("spawn --count 1", "fibers, threads, hybrid\n"),
        ("pipe --pairs 1 --messages 1 --bytes 1", "fibers, threads, hybrid, sidecar\n"),
        ("basic --yields 1", "fibers, threads, hybrid, futures, coroutines\n"),
    ] {
        wrong(
            &format!("run {workload} --on thread"),
            &["invalid value `thread` for --on", offered],
        );
    }
    let of_any = "fibers, threads, hybrid, sidecar, processes, coroutines, futures";
    wrong("run --on thread spawn --count 1", &["invalid value `thread` for --on", of_any]);
    wrong("run basic --yields 1 --call fast", &["`fast`", "quick, medium, slow"]);
    wrong("frobnicate", &["unknown command `frobnicate`", "ramie --help"]);
}

#[test]
fn workers_are_refused_for_engines_without_workers() {
    wrong("run spawn --count 1 --on threads --workers 2", &["--workers", "--on threads"]);
    for on in ["coroutines", "futures"] {
        let arguments = format!("run basic --yields 1 --workers 2 --on {on}");
        wrong(&arguments, &["--workers", &format!("--on {on}"), "use --on fibers"]);
    }
}

#[test]
fn a_hybrid_of_one_worker_is_refused() {
    let cure = "use --on fibers, or 2 workers or more";
    wrong("run spawn --count 1 --on hybrid --workers 1", &["--workers is 1", cure]);
    wrong("run --workers 1 --on hybrid spawn --count 1", &["--workers is 1", cure]);
}

#[test]
fn help_lists_the_engines_of_a_workload() {
    const ALL: [&str; 7] =
        ["fibers", "threads", "hybrid", "sidecar", "processes", "coroutines", "futures"];
    for (workload, offered) in [
        ("feed", &["fibers", "threads", "hybrid", "processes", "coroutines"][..]),
        ("alive", &ALL[..3]),
        ("pipe", &ALL[..4]),
        ("socketpair", &ALL[..4]),
        ("recurse", &["fibers", "threads", "hybrid", "coroutines", "futures"]),
        ("mix", &["fibers", "threads", "hybrid", "processes"]),
        ("server", &ALL[..4]),
        ("", &ALL),
    ] {
        let help = text(&output(ramie(&format!("run {workload} --help"))).stdout);
        for on in ALL {
            let is_offered = help.contains(&format!("- {on}:"));
            assert_eq!(is_offered, offered.contains(&on), "{workload}, {on}: {help}");
        }
        assert_eq!(help.matches("--on <ENGINE>").count(), 1, "{help}");
    }
}

#[test]
fn engines_that_a_workload_does_not_support_are_refused() {
    let strands = ["ring --size 1 --hops 1", "spawn --count 1"];
    let transfers =
        ["pipe", "socketpair"].map(|name| format!("{name} --pairs 1 --messages 1 --bytes 1"));
    let others = ["alive --count 1", "switch --count 1"]
        .into_iter()
        .chain(transfers.iter().map(String::as_str));
    for workload in strands.into_iter().chain(others) {
        for on in ["coroutines", "futures"] {
            let does_not =
                format!("does not run on {on}; use --on fibers, --on threads, --on hybrid");
            wrong(&format!("run {workload} --on {on}"), &[&does_not]);
        }
    }
    for workload in strands.into_iter().chain(["feed --people 1 --nutrients 1"]) {
        for run in [format!("{workload} --on sidecar"), format!("--on sidecar {workload}")] {
            wrong(&format!("run {run}"), &["does not run on sidecar; use --on fib"]);
        }
    }
    for workload in ["basic --yields 1", "recurse --depth 1", "recurse2 --depth 1"] {
        for on in ["sidecar", "processes"] {
            let cure = "use --on fibers, --on threads, --on hybrid, --on futures, --on coroutines";
            let name = workload.split(' ').next().unwrap();
            let does_not = format!("{name} does not run on {on}; {cure}");
            wrong(&format!("run {workload} --on {on}"), &[&does_not]);
        }
    }
    for workload in ["basic --yields 1", "recurse --depth 1", "recurse2 --depth 1"] {
        let arguments = format!("run {workload} --call slow --on coroutines");
        let parts = ["--call slow does not run on coroutines", "no timers", "--on threads"];
        wrong(&arguments, &parts);
    }
}

#[test]
fn flags_of_feed_are_checked() {
    let feed = |flags: &str| format!("run feed --people 3 --nutrients 4 {flags}");
    for on in ["fibers", "threads", "hybrid", "processes"] {
        let parts = [&format!("--pass does not apply to --on {on}")[..], "--on coroutines"];
        wrong(&feed(&format!("--pass next --on {on}")), &parts);
    }
    wrong(&feed("--pass back --on coroutines"), &["invalid value `back`", "loop, next"]);
    wrong(&feed("--yield-every -1"), &["invalid value `-1` for --yield-every", "0 or more"]);
    wrong(&feed("--yield-every 4294967296"), &["too large, at most 4294967295"]);
    wrong(&feed("--on futures"), &["feed does not run on futures", "--on coroutines"]);
    wrong(&feed("--on coroutines --workers 2"), &["--workers", "coroutines run on one thread"]);
    wrong(&feed("--on processes --workers 2"), &["--workers", "use --processes"]);
    wrong(&feed("--on fibers --processes 2"), &["--processes", "--on processes"]);
    wrong(&feed("--on processes --processes 4"), &["3 strands are too few for 4 processes"]);
}

#[test]
fn malformed_addresses_are_refused() {
    for bad in ["8080", "localhost", "127.0.0.1:", "127.0.0.1:70000", "::1:80"] {
        wrong(&format!("serve --hello --addr {bad}"), &[bad, "127.0.0.1:8080"]);
    }
    for bad in ["127.0.0.1:80800", ":65536", "[::1]:99999999999999999999"] {
        let port = bad.rsplit(':').next().unwrap();
        let why = format!("the port {port} is above 65535");
        wrong(&format!("serve --hello --addr {bad}"), &[bad, &why]);
    }
    let parts = ["`:8096`", "the address is missing", "0.0.0.0:8096", "127.0.0.1:8096"];
    wrong("serve --hello --addr :8096", &parts);
    wrong("inspect 1 --web :8096", &parts);
}

#[test]
fn an_argument_too_many_is_refused() {
    wrong("serve . extra", &["unknown argument extra: only one DIR is allowed"]);
    wrong("lab compare a b c", &["unknown argument c: only OLD and NEW are allowed"]);
    wrong("run feed extra", &["unknown argument extra; see ramie run feed --help"]);
}

#[test]
fn arguments_that_are_not_utf8_are_refused() {
    let bad = OsStr::from_bytes(b"\xff");
    for (before, parts) in [
        ("", ["unknown command", "ramie --help"]),
        ("run feed --people", ["UTF-8", "ramie run feed --help"]),
    ] {
        let mut command = ramie(before);
        command.arg(bad);
        assert_sentence(&output(command), 2, &parts);
    }
}

#[test]
fn a_sentence_is_one_write() {
    // Each write to a datagram socket is one datagram.
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mut command = ramie("fedd");
    let status = command.stderr(OwnedFd::from(theirs)).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let mut buffer = [0; 256];
    let length = ours.recv(&mut buffer).unwrap();
    assert_eq!(text(&buffer[..length]), "ramie: unknown command `fedd`; see ramie --help\n");
}

#[test]
fn environment_variables_are_checked() {
    let mut driver = ramie("run spawn --count 1");
    driver.env("RAMIE_DRIVER", "kqueue");
    assert_sentence(&output(driver), 2, &["RAMIE_DRIVER", "kqueue", "uring"]);
    let mut stack = ramie("run spawn --count 1");
    stack.env("RAMIE_STACK", "large");
    assert_sentence(&output(stack), 2, &["RAMIE_STACK", "large"]);
    for bytes in ["0", "1073741825"] {
        let mut stack = ramie("run spawn --count 1");
        stack.env("RAMIE_STACK", bytes);
        let parts = [&format!("invalid value `{bytes}` for RAMIE_STACK: "), "32 KiB", "1 GiB"];
        assert_sentence(&output(stack), 2, &parts);
    }
    let mut submitter = ramie("run spawn --count 1");
    submitter.env("RAMIE_SUBMIT", "sqpoll");
    assert_sentence(&output(submitter), 2, &["RAMIE_SUBMIT", "sqpoll", "kernel-thread or sidecar"]);
    for variable in ramie_driver::VARIABLES {
        let mut empty = ramie("run spawn --count 1");
        empty.env(variable, "");
        assert!(output(empty).status.success(), "an empty {variable} counts as unset");
    }
}

#[test]
fn help_has_examples_and_goes_to_stdout() {
    for (arguments, part) in [
        ("--help", "Examples:"),
        ("--help", "RAMIE_STRANDS=fibers|threads"),
        ("--help", "RAMIE_INSPECT=1"),
        ("help --help", "Examples:"),
        ("help run --help", "ramie run ring --size 500"),
        ("run feed --help", "1 to 1024"),
        ("run --help", "ramie run ring --size 500"),
        ("run feed --help", "A fiber yields after each nutrient"),
        ("run basic --help", "not on coroutines"),
        ("run pipe --help", "compares every byte"),
        ("run socketpair --help", "connected Unix streams"),
        ("run --help", "run pipe --pairs 48"),
        ("run recurse2 --help", "every poll goes through"),
        ("run mix --help", "misses the page cache"),
        ("run server --help", "client_wait_us"),
        ("run ring --help", "--preset"),
        ("run feed --help", "--yield-every"),
        ("run --help", "recurse --depth 1000 --on futures"),
        ("serve --help", "127.0.0.1:8080"),
        ("lab --help", "Ctrl-C"),
        ("lab --help", "Exit codes: 0 "),
        ("lab --help", "130 after a second Ctrl-C"),
        ("dump --help", "RAMIE_INSPECT=1"),
        ("doctor --help", "--json"),
    ] {
        let output = output(ramie(arguments));
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(part), "{arguments}: {}", text(&output.stdout));
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn a_closed_stdout_is_no_error() {
    let script =
        format!("set -o pipefail; '{RAMIE}' run spawn --count 1 --repeat 5000 | head -n 1");
    let output = std::process::Command::new("bash").arg("-c").arg(script).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 1);
}
