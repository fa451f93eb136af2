//! Fuzzing on stable Rust: kept inputs (`tests/corpus`) are mutated, and each target checks what
//! must hold for any input.
//!
//! `cargo test -p ramie-http --lib fuzz` runs each target for two seconds, and
//! `cargo test --release -p ramie-http --all-features --lib fuzz -- --ignored` for ten minutes.
//! `FUZZ_SECONDS` sets the time, and `FUZZ_SEED` repeats a run. A failure prints its input; add it
//! to the corpus.
//!
//! The targets are in the rooms whose bytes they mutate, in modules named `fuzz`.

mod random;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    time::{Duration, Instant, SystemTime},
};

pub(crate) use self::random::Random;

/// Parts that concern the framing of messages, which mutations insert.
const WORDS: [&str; 52] = [
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "\n\n",
    " ",
    "\t",
    "\0",
    "\u{b}",
    "\u{7f}",
    "\u{e4}",
    ":",
    ": ",
    ";",
    ",",
    "=",
    "\"",
    "\\",
    "/",
    "?",
    "#",
    "%",
    "%00",
    "*",
    "@",
    "[::1]",
    "0",
    "5",
    "f",
    "00000000",
    "ffffffffffffffff",
    "18446744073709551616",
    "-1",
    "+1",
    "HTTP/1.1",
    "HTTP/1.0",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "chunked",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "http://a",
    "\r\n ",
    "--b",
    "--",
    "-",
    "bytes=",
    "PROXY ",
    "UNKNOWN",
    "192.0.2.1",
    "65536",
];

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Makes two tests of a target, of which the second runs for ten minutes.
macro_rules! targets {
    ($($folder:literal $check:ident $short:ident $long:ident),* $(,)?) => {$(
        #[test]
        fn $short() {
            crate::fuzz::run($folder, 2, $check);
        }

        #[test]
        #[ignore = "takes ten minutes"]
        fn $long() {
            crate::fuzz::run($folder, 600, $check);
        }
    )*};
}

pub(crate) use targets;

/// Calls `check` with mutated inputs of a folder of the corpus, for some time.
pub(crate) fn run(folder: &str, seconds: u64, check: impl Fn(&[u8], &mut Random)) {
    let seconds = from_environment("FUZZ_SECONDS").unwrap_or(seconds);
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    let seed = from_environment("FUZZ_SEED").unwrap_or_else(now);
    let corpus = corpus(folder);
    let mut random = Random::new(seed);
    // The kept inputs themselves come first, so that a mended failure stays mended.
    let mut kept = corpus.iter();
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..256 {
            let input = kept.next().cloned().unwrap_or_else(|| mutated(&corpus, &mut random));
            let checked = catch_unwind(AssertUnwindSafe(|| check(&input, &mut random)));
            if let Err(panic) = checked {
                eprintln!("FUZZ_SEED={seed}, input {count} of {folder}: {}", input.escape_ascii());
                resume_unwind(panic);
            }
            count += 1;
        }
    }
    println!("{folder}: {count} inputs in {seconds} s, FUZZ_SEED={seed}");
}

fn corpus(folder: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut files: Vec<_> = fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    // The order of a folder is not the same everywhere, and a seed must repeat a run.
    files.sort();
    assert!(files.len() >= 5, "{} has {} inputs", path.display(), files.len());
    files.iter().map(|file| fs::read(file).expect("a readable input")).collect()
}

fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = random.choose(corpus).clone();
    for _ in 0..=random.below(5) {
        mutate(&mut input, corpus, random);
    }
    input.truncate(4096);
    input
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(8)).min(input.len());
    match random.below(8) {
        0 if at < input.len() => input[at] = random.byte(),
        1 if at < input.len() => input[at] ^= 1 << random.below(8),
        2 => _ = input.drain(at.min(end)..end),
        3 => input.insert(at, random.byte()),
        4 => {
            let again = input[at.min(end)..end].repeat(1 + random.below(3));
            input.splice(at..at, again);
        }
        5 => {
            let other = random.choose(corpus);
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let word = random.choose(&WORDS).as_bytes();
            input.splice(at..at, word.iter().copied());
        }
    }
}
