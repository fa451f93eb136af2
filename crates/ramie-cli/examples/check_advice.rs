//! Checks that the advice is right: on mixes generated from a seed, which nothing was tuned on.
//!
//! For each mix it asks `ramie advise`, then measures every arm for longer, in interleaved rounds,
//! and compares the recommended arm with the best by steps/s. The advice is right if the
//! recommended arm is within 10 % of the best. The exit code is 1 if it is right in less than 90 %
//! of the mixes.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::Parser;
use ramie_workloads::mix::WaitFor;
use serde_json::Value;

/// The recommended arm may be this much slower than the best.
const WITHIN: f64 = 0.9;
/// The share of the mixes in which that has to hold.
const SHARE: f64 = 0.9;

/// Checks `ramie advise` on generated mixes: is the recommended arm within 10 % of the best?
#[derive(Parser)]
struct Options {
    /// Number of mixes
    #[arg(long, default_value_t = 50)]
    mixes: u64,
    /// Seed of the mixes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the mix of this number, from 1
    #[arg(long)]
    only: Option<u64>,
    /// Time for each advice, in seconds
    #[arg(long, default_value_t = 9.0)]
    advise_seconds: f64,
    /// Time of each run of an arm, in seconds
    #[arg(long, default_value_t = 1.5)]
    run_seconds: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The program ramie, built by `cargo build --release --bins`
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/ramie"))]
    ramie: PathBuf,
}

/// Random numbers (splitmix64), so that a seed means the same mixes everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A whole number whose logarithm is evenly distributed.
    fn logarithmic(&mut self, least: f64, most: f64) -> u64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (least * (most / least).powf(share)).round() as u64
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }
}

/// The flags of one mix.
fn mix(seed: u64, number: u64) -> Vec<String> {
    let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let numbers = [
        ("--concurrency", random.logarithmic(1.0, 3000.0)),
        ("--cpu-us", random.logarithmic(1.0, 500.0)),
        ("--wait-us", random.logarithmic(10.0, 30_000.0)),
        ("--jitter", random.one_of(&[0, 20, 50, 100])),
    ];
    let mut flags: Vec<String> = numbers
        .iter()
        .flat_map(|(flag, number)| [(*flag).to_owned(), number.to_string()])
        .collect();
    flags.extend(["--wait".to_owned(), random.one_of(&WaitFor::ALL).name().to_owned()]);
    if random.one_of(&[true, false, false, false]) {
        flags.push("--blocking".to_owned());
    }
    flags
}

impl Options {
    /// Runs the program and parses the JSON that it prints.
    fn json(&self, arguments: &[String]) -> Result<Value, String> {
        let output = Command::new(&self.ramie).args(arguments).output();
        let output =
            output.map_err(|error| format!("cannot start {}: {error}", self.ramie.display()))?;
        match output.status.success() {
            true => serde_json::from_slice(&output.stdout).map_err(|error| error.to_string()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Checks one mix and prints its line; returns whether the advice is right.
    fn check(&self, number: u64, flags: &[String]) -> Result<bool, String> {
        let mut advise = vec!["advise".to_owned()];
        advise.extend(flags.iter().cloned());
        advise.extend(["--json".to_owned(), format!("--seconds={}", self.advise_seconds)]);
        let answer = self.json(&advise)?;
        // All runs compute what the advice computed.
        let speed = &answer["iterations_per_ms"];
        let arms = answer["arms"].as_array().ok_or("the answer has no arms")?;
        let mut speeds = vec![Vec::new(); arms.len()];
        for _ in 0..self.rounds {
            for (arm, speeds) in arms.iter().zip(&mut speeds) {
                let mut run = ["run", "mix"].map(str::to_owned).to_vec();
                run.extend(flags.iter().cloned());
                run.extend(["--json".to_owned(), format!("--seconds={}", self.run_seconds)]);
                run.push(format!("--iterations-per-ms={speed}"));
                let name = arm["name"].as_str().unwrap_or_default();
                run.push(format!("--on={name}"));
                if let Some(workers) = arm["workers"].as_u64() {
                    let flag = if name == "processes" { "processes" } else { "workers" };
                    run.push(format!("--{flag}={workers}"));
                }
                speeds.push(self.json(&run)?["steps_per_s"].as_f64().ok_or("no steps_per_s")?);
            }
        }
        let medians: Vec<f64> = speeds.into_iter().map(median).collect();
        let name = |arm: &Value| match arm["workers"].as_u64() {
            Some(workers) => format!("{}×{workers}", arm["name"].as_str().unwrap_or_default()),
            None => arm["name"].as_str().unwrap_or_default().to_owned(),
        };
        let (best_arm, best) = arms
            .iter()
            .zip(&medians)
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .ok_or("no arm was measured")?;
        let is_recommended = |arm: &&Value| {
            (&arm["name"], &arm["workers"]) == (&answer["recommended"], &answer["workers"])
        };
        let recommended = arms.iter().position(|arm| is_recommended(&arm));
        let recommended = recommended.ok_or("the recommended arm is not in the list")?;
        let ratio = medians[recommended] / best;
        let is_right = ratio >= WITHIN;
        let confidence = answer["confidence"].as_str().unwrap_or_default();
        println!(
            "{number:>3} {} {:<78} advised {:<13} best {:<13} {:>6.1} %  confidence {confidence}",
            if is_right { "right" } else { "WRONG" },
            flags.join(" "),
            name(&arms[recommended]),
            name(best_arm),
            ratio * 100.0
        );
        Ok(is_right)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> ExitCode {
    let options = Options::parse();
    let (mut right, mut missed) = (0, Vec::new());
    let numbers = options.only.map_or(1..=options.mixes, |only| only..=only);
    for number in numbers {
        let flags = mix(options.seed, number);
        match options.check(number, &flags) {
            Ok(true) => right += 1,
            Ok(false) => missed.push(flags.join(" ")),
            Err(error) => {
                println!("{number:>3} ERROR {}: {error}", flags.join(" "));
                missed.push(flags.join(" "));
            }
        }
    }
    let all = right + missed.len();
    println!(
        "the recommended arm is within 10 % of the best in {right} of {all} mixes (seed {})",
        options.seed
    );
    for flags in &missed {
        println!("missed: {flags}");
    }
    match right as f64 >= SHARE * all as f64 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
