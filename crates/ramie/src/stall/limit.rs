//! The limit from which on a fiber's run is a stall.

use std::{env, io, time::Duration};

use crate::core::worker::invalid;

const VARIABLE: &str = "RAMIE_STALL_MS";
const DEFAULT: Duration = Duration::from_millis(25);
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_hours(1);

/// The limit of a runtime; `None`: stalls are not reported.
///
/// # Errors
/// `InvalidInput`: the limit that was given, or the variable, is out of range.
pub(crate) fn limit(given: Option<Option<Duration>>) -> io::Result<Option<Duration>> {
    match given {
        Some(Some(limit)) if !(LEAST..=MOST).contains(&limit) => {
            Err(invalid(format!("stall_limit is {limit:?}, but must be between 1 ms and 1 hour")))
        }
        Some(limit) => Ok(limit),
        None => from_env(),
    }
}

fn from_env() -> io::Result<Option<Duration>> {
    const EXPECTED: &str = "a number of ms from 1 to 3600000, or 0 for no reports";
    let Some(value) = env::var_os(VARIABLE) else { return Ok(Some(DEFAULT)) };
    match value.to_string_lossy().trim() {
        "" => Ok(Some(DEFAULT)),
        "0" => Ok(None),
        text => {
            let limit = text.parse().ok().map(Duration::from_millis);
            let limit = limit.filter(|limit| (LEAST..=MOST).contains(limit));
            let wrong = || invalid(ramie_driver::invalid_value(VARIABLE, &value, EXPECTED));
            limit.map(Some).ok_or_else(wrong)
        }
    }
}
