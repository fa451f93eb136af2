//! The same random calls on std and on its twins: every result, errno, position and content is the
//! same, on each driver.
//!
//! A sequence runs on std first, on a plain thread, and leaves a trace: one line for each call.
//! Then it runs on a fiber of each driver, and the traces must be equal. proptest makes the
//! sequences from a seed, which is printed, and shortens one that fails. `SEED=…` repeats a run,
//! and `RAMIE_DIFFERENTIAL=…` tries that many sequences of each sort.
//!
//! A step whose call would wait forever is left out by the program that runs it, which knows from
//! the results so far how much there is to be read.

#[path = "../common/mod.rs"]
mod common;
mod fifos;
mod file_steps;
mod files;
mod folders;
mod memory;
mod pipes;
mod socket_types;
mod sockets;

use std::{fmt::Debug, io};

use proptest::{
    collection::vec,
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use ramie::Runtime;

/// Sequences of each sort in the suite.
const CASES: u32 = 24;

/// As many as asked for.
fn cases() -> u32 {
    let asked = std::env::var("RAMIE_DIFFERENTIAL").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(CASES)
}

/// The outcome of a call.
fn told<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => match error.raw_os_error() {
            Some(errno) => format!("errno {errno}, {:?}", error.kind()),
            None => format!("{:?}: {error}", error.kind()),
        },
    }
}

/// Bytes that differ from call to call.
fn bytes(len: usize, nth: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 3 + at / 251 + nth * 37) as u8).collect()
}

/// A number that stands for bytes in a trace.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3).rotate_left(5)
    })
}

/// A line for each step whose call `call` makes: the step and the result. A step that `call` leaves
/// out has no line.
fn trace<S: Debug>(steps: &[S], mut call: impl FnMut(&S, usize) -> Option<String>) -> Vec<String> {
    let lines = steps.iter().enumerate().filter_map(|(nth, step)| {
        let told = call(step, nth)?;
        Some(format!("{step:?}: {told}"))
    });
    lines.collect()
}

/// The first line in which two traces differ, and the one before it.
fn difference(theirs: &[String], ours: &[String]) -> Option<String> {
    let longest = theirs.len().max(ours.len());
    let at = (0..longest).find(|at| theirs.get(*at) != ours.get(*at))?;
    let before = at.checked_sub(1).map_or("nothing", |before| &theirs[before]);
    let (theirs, ours) = (theirs.get(at), ours.get(at));
    Some(format!("after {before}\n  std:   {theirs:?}\n  ramie: {ours:?}"))
}

/// Compares as many sequences of steps as asked for.
fn compare<S: Strategy>(
    what: &str,
    steps: S,
    theirs: fn(&[S::Value]) -> Vec<String>,
    ours: fn(&[S::Value]) -> Vec<String>,
) where
    S::Value: Clone + Debug,
{
    let cases = cases();
    let mut random = common::Random::new(what);
    let seed: Vec<u8> = (0..32).map(|_| random.below(256) as u8).collect();
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let result = runner.run(&vec(steps, 1..50), |steps| {
        let expected = theirs(&steps);
        for driver in common::drivers() {
            let runtime = Runtime::builder().driver(driver).workers(1).build().unwrap();
            if let Some(difference) = difference(&expected, &runtime.run(|| ours(&steps))) {
                return Err(TestCaseError::fail(format!("{driver:?}: {difference}")));
            }
        }
        Ok(())
    });
    match result {
        Ok(()) => println!("{what}: {cases} sequences are as with std"),
        Err(TestError::Fail(why, steps)) => panic!("{what}: {why}\n{steps:#?}"),
        Err(TestError::Abort(why)) => panic!("{what}: {why}"),
    }
}
