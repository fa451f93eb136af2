//! The environment variables of Ramie: their names, and the messages about wrong ones.

use std::env;
use std::ffi::OsStr;
use std::sync::Once;

use crate::say;

/// The variables that programs may set.
pub const VARIABLES: [&str; 9] = [
    "RAMIE_CAPS",
    "RAMIE_DRIVER",
    "RAMIE_DUMP_FILE",
    "RAMIE_FLIGHT_RECORDER",
    "RAMIE_INSPECT",
    "RAMIE_STACK",
    "RAMIE_STALL_MS",
    "RAMIE_STRANDS",
    "RAMIE_SUBMIT",
];

/// Injects faults, in a build that can.
const FAULTS: &str = "RAMIE_FAULTS";

/// Variables of Ramie's own tests, besides those that begin with `RAMIE_TEST_`. (Cargo sets those
/// that begin with `RAMIE_BUILD_` for tests of the program.)
const OF_TESTS: [&str; 9] = [
    "RAMIE_CANARY",
    "RAMIE_CORO_TEST_CHILD",
    "RAMIE_DIFFERENTIAL",
    FAULTS,
    "RAMIE_LIMIT_BACKTRACES",
    "RAMIE_MUTANT",
    "RAMIE_SEED",
    "RAMIE_WORDS",
    "RAMIE_WRITE_INVENTORY",
];

/// Returns the message about a value that a variable cannot have.
#[doc(hidden)]
pub fn invalid_value(variable: &str, value: impl AsRef<OsStr>, expected: &str) -> String {
    let value = value.as_ref().to_string_lossy();
    format!("invalid value `{value}` for {variable}: expected {expected}")
}

fn is_known(name: &str) -> bool {
    let begins = |prefix: &&str| name.starts_with(*prefix);
    let is_of_tests =
        ["RAMIE_TEST_", "RAMIE_BUILD_"].iter().any(begins) || OF_TESTS.contains(&name);
    !name.starts_with("RAMIE_") || is_of_tests || VARIABLES.contains(&name)
}

/// Returns a message about the variables that are set and begin with `RAMIE_`, but that this build
/// of Ramie does not read; `None` if there are none.
#[doc(hidden)]
pub fn unknown_variables() -> Option<String> {
    let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let all: Vec<_> = unknown_among(names).into_iter().chain(ignored_faults()).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns a message if `RAMIE_FAULTS` is set, but this build injects no faults.
#[doc(hidden)]
pub fn ignored_faults() -> Option<String> {
    let is_set = env::var_os(FAULTS).is_some_and(|value| !value.is_empty());
    (is_set && !crate::HAS_FAULTS).then(|| {
        format!(
            "ignoring {FAULTS}, because this build injects no faults: build it with the feature \
             `faults`"
        )
    })
}

fn unknown_among(names: impl Iterator<Item = String>) -> Option<String> {
    let mut unknown: Vec<_> = names.filter(|name| !is_known(name)).collect();
    unknown.sort();
    let noun = match unknown.len() {
        0 => return None,
        1 => "unknown environment variable",
        _ => "unknown environment variables",
    };
    Some(format!("ignoring {noun} {}: expected {}", unknown.join(", "), VARIABLES.join(", ")))
}

/// Logs a warning about unknown variables, once in a process.
#[doc(hidden)]
pub fn warn_about_unknown_variables() {
    static WARNED: Once = Once::new();
    // Without a logger the warning would be lost, so a later call may log it.
    if log::max_level() >= log::Level::Warn && !WARNED.is_completed() {
        let mut message = None;
        WARNED.call_once(|| message = unknown_variables());
        if let Some(message) = message {
            say!(Warn, "{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_named_with_the_known_ones() {
        let among = |names: &[&str]| unknown_among(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(among(&["PATH", "RAMIE", "RAMIE_TEST_LIMIT", "RAMIE_SEED"]), None);
        assert_eq!(among(&VARIABLES), None);
        let one = among(&["RAMIE_ENTER", "HOME"]).unwrap();
        assert_eq!(
            one,
            "ignoring unknown environment variable RAMIE_ENTER: expected RAMIE_CAPS, \
             RAMIE_DRIVER, RAMIE_DUMP_FILE, RAMIE_FLIGHT_RECORDER, RAMIE_INSPECT, \
             RAMIE_STACK, RAMIE_STALL_MS, RAMIE_STRANDS, RAMIE_SUBMIT"
        );
        let two = among(&["RAMIE_STAK", "RAMIE_CAPS", "RAMIE_"]).unwrap();
        assert!(two.contains("unknown environment variables RAMIE_, RAMIE_STAK: "), "{two}");
    }

    #[test]
    fn an_invalid_value_is_quoted_with_its_variable() {
        let message = invalid_value("RAMIE_SUBMIT", "foo", "worker, kernel-thread or sidecar");
        let expected =
            "invalid value `foo` for RAMIE_SUBMIT: expected worker, kernel-thread or sidecar";
        assert_eq!(message, expected);
    }
}
