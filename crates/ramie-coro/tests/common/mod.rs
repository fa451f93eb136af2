//! Helpers of the tests: running a test in a process of its own, and reading the memory map.
#![allow(dead_code, unreachable_pub)]

use std::{
    fs,
    io::Write,
    os::unix::process::ExitStatusExt,
    panic::Location,
    path::Path,
    process::{Command, Output},
};

/// Prints that a test, or a part of it, is skipped.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    say(&format!("skipped: {}: {reason}", thread.name().unwrap_or("a thread")));
}

/// Prints a line that bypasses libtest, because libtest hides the output of tests that pass.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Whether this is a build for AddressSanitizer, which takes memory for each page of a stack, so a
/// test cannot limit memory or count pages. If so, prints that the test is skipped.
pub fn memory_is_the_sanitizers() -> bool {
    let is_sanitized = cfg!(feature = "sanitizer");
    if is_sanitized {
        skipped("AddressSanitizer takes memory of its own");
    }
    is_sanitized
}

const CHILD: &str = "RAMIE_CORO_TEST_CHILD";

/// Whether this process was started by [`child`] or [`child_under`] to run the body of a test.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The name by which libtest knows a test of the caller's file: in a program of several files, each
/// of them is a module.
#[track_caller]
fn full_name(test: &str) -> String {
    let file = Path::new(Location::caller().file());
    let is_whole_program = file.with_file_name("").ends_with("tests");
    match file.file_stem() {
        Some(module) if !is_whole_program => format!("{}::{test}", module.display()),
        _ => test.to_owned(),
    }
}

/// Runs the test of this name in the caller's file in a process of its own.
#[track_caller]
pub fn child(test: &str) -> Output {
    child_under("true", test)
}

/// Like [`child`], after a shell command that sets limits. This process repeats the lines in which
/// the child reports skipped tests.
#[track_caller]
pub fn child_under(limits: &str, test: &str) -> Output {
    let program = std::env::current_exe().expect("the test knows its own program");
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -c 0; {limits}; exec \"$0\" \"$@\""))
        .arg(program)
        .args([
            &*full_name(test),
            "--exact",
            "--nocapture",
            "--include-ignored",
            "--test-threads=1",
        ])
        .env(CHILD, "1")
        .output()
        .expect("sh can be run");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("running 1 test"), "no test is named {test}");
    stderr(&output).lines().filter(|line| line.starts_with("skipped: ")).for_each(say);
    output
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn assert_signal(output: &Output, signal: i32) {
    assert_eq!(output.status.signal(), Some(signal), "{:?}: {}", output.status, stderr(output));
}

pub fn assert_success(output: &Output) {
    assert!(output.status.success(), "{:?}: {}", output.status, stderr(output));
}

/// The VmFlags of the mapping that contains an address.
pub fn vm_flags(address: usize) -> Vec<String> {
    let smaps = fs::read_to_string("/proc/self/smaps").expect("Linux has smaps");
    let mut is_inside = false;
    for line in smaps.lines() {
        if let Some(range) = range_of(line) {
            is_inside = range.contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_inside) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("{address:#x} is not mapped");
}

fn range_of(line: &str) -> Option<std::ops::Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

pub fn vma_count() -> usize {
    fs::read_to_string("/proc/self/maps").expect("Linux has maps").lines().count()
}

pub fn page_size() -> usize {
    // SAFETY: takes an integer.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// How many pages of a stack are in memory.
pub fn resident_pages(stack: &ramie_coro::Stack) -> usize {
    let info = ramie_coro::overflow::stack_of(stack.base().get() - 1).expect("it is a stack");
    let bytes = info.size().usable_bytes();
    let mut pages = vec![0_u8; bytes / page_size()];
    // SAFETY: one byte for each page of the range.
    let result = unsafe { libc::mincore(info.floor() as *mut _, bytes, pages.as_mut_ptr()) };
    assert_eq!(result, 0);
    pages.iter().filter(|page| **page & 1 == 1).count()
}

/// Uses this many bytes of the stack it runs on, and a few more.
pub fn use_stack(bytes: usize) -> u8 {
    let here = 0_u8;
    descend_to((&raw const here as usize).saturating_sub(bytes))
}

#[inline(never)]
fn descend_to(address: usize) -> u8 {
    let mut frame = [0_u8; 256];
    let here = std::hint::black_box(&mut frame);
    if here.as_ptr() as usize > address {
        here[0] = descend_to(address);
    }
    std::hint::black_box(here)[0].wrapping_add(1)
}
