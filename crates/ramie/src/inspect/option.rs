//! The environment variables about dumps.

use std::{env, io, path::PathBuf};

use crate::core::worker::invalid;

const VARIABLE: &str = "RAMIE_INSPECT";
/// The file to which dumps on SIGQUIT are added.
pub(super) const FILE_VARIABLE: &str = "RAMIE_DUMP_FILE";

/// Returns whether dumps can be had from outside: the option, or `RAMIE_INSPECT`.
///
/// # Errors
/// `InvalidInput`: the variable has another value than 0 or 1.
pub(crate) fn is_served(given: Option<bool>) -> io::Result<bool> {
    if let Some(given) = given {
        return Ok(given);
    }
    let Some(value) = env::var_os(VARIABLE) else { return Ok(false) };
    match value.to_string_lossy().trim() {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(invalid(ramie_driver::invalid_value(VARIABLE, &value, "1 or 0"))),
    }
}

/// Returns the file for dumps on SIGQUIT, if `RAMIE_DUMP_FILE` names one.
///
/// # Errors
/// `InvalidInput`: the path is relative, so it would depend on the directory at the time of the
/// signal.
pub(crate) fn dump_file() -> io::Result<Option<PathBuf>> {
    const EXPECTED: &str = "an absolute path, such as /tmp/dumps";
    let Some(value) = env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(&value);
    let wrong = || invalid(ramie_driver::invalid_value(FILE_VARIABLE, &value, EXPECTED));
    if path.is_absolute() { Ok(Some(path)) } else { Err(wrong()) }
}
