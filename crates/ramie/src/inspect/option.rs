//! The options about dumps and traces, and their environment variables.

use std::{env, io, path::PathBuf};

use super::{
    FlightRecorder,
    per_process::PartUse,
    quit::{QuitDumps, dump_on_quit},
    serve::{DumpServer, serve},
    trace::{Flight, record},
};
use crate::core::worker::invalid;

const VARIABLE: &str = "RAMIE_INSPECT";
const RECORDER_VARIABLE: &str = "RAMIE_FLIGHT_RECORDER";
/// The file to which dumps on SIGQUIT are added.
pub(super) const FILE_VARIABLE: &str = "RAMIE_DUMP_FILE";

/// The options as a builder has them.
#[derive(Default)]
pub(crate) struct InspectChoices {
    pub(crate) is_served: Option<bool>,
    pub(crate) dumps_on_quit: bool,
    pub(crate) flight: Option<FlightRecorder>,
}

/// The options of a runtime.
#[derive(Clone)]
pub(crate) struct InspectOptions {
    is_served: bool,
    dumps_on_quit: bool,
    dump_file: Option<PathBuf>,
    flight: Option<FlightRecorder>,
}

/// The parts of the process that a runtime uses for dumps and traces, until this is dropped. The
/// flight recorder is the last to end, because the others may report to it.
pub(crate) struct Inspected {
    _served: Option<PartUse<DumpServer>>,
    _dumps: Option<PartUse<QuitDumps>>,
    _flight: Option<PartUse<Flight>>,
}

impl InspectChoices {
    /// Looks at the environment, for options that the builder does not have.
    ///
    /// # Errors
    /// `InvalidInput`: an option or a variable has a wrong value.
    pub(crate) fn check(self) -> io::Result<InspectOptions> {
        Ok(InspectOptions {
            is_served: is_served(self.is_served)?,
            dumps_on_quit: self.dumps_on_quit,
            dump_file: dump_file()?,
            flight: flight_recorder(self.flight)?,
        })
    }
}

impl InspectOptions {
    /// Begins what the options ask for. What cannot begin is left out, with a warning.
    pub(crate) fn begin(&self) -> Inspected {
        let flight = self.flight.as_ref().and_then(record);
        let served = self.is_served.then(serve).flatten();
        let dumps = self.dumps_on_quit.then(|| dump_on_quit(self.dump_file.clone())).flatten();
        Inspected { _served: served, _dumps: dumps, _flight: flight }
    }
}

/// Returns whether dumps can be had from outside: the option, or `RAMIE_INSPECT`.
///
/// # Errors
/// `InvalidInput`: the variable has another value than 0 or 1.
fn is_served(given: Option<bool>) -> io::Result<bool> {
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

/// Returns the flight recorder: the option, or one for the directory that `RAMIE_FLIGHT_RECORDER`
/// names.
///
/// # Errors
/// `InvalidInput`: the variable has a relative path, or an option is out of range.
fn flight_recorder(given: Option<FlightRecorder>) -> io::Result<Option<FlightRecorder>> {
    const EXPECTED: &str = "an absolute path of a directory, such as /var/tmp/traces";
    let from_variable = || {
        let value = env::var_os(RECORDER_VARIABLE).filter(|value| !value.is_empty())?;
        let wrong = || ramie_driver::invalid_value(RECORDER_VARIABLE, &value, EXPECTED);
        let is_absolute = PathBuf::from(&value).is_absolute();
        Some(if is_absolute { Ok(FlightRecorder::new(value)) } else { Err(invalid(wrong())) })
    };
    let Some(options) = given.map(Ok).or_else(from_variable).transpose()? else { return Ok(None) };
    let in_range = |name: &str, value: usize, least: usize, most: usize| {
        let is_right = (least..=most).contains(&value);
        let wrong = || format!("{name} is {value}, but must be between {least} and {most}");
        if is_right { Ok(()) } else { Err(invalid(wrong())) }
    };
    in_range("bytes_per_worker", options.bytes_per_worker, 4 << 10, 64 << 20)?;
    in_range("files", options.files, 1, 1_000)?;
    Ok(Some(options))
}

/// Returns the file for dumps on SIGQUIT, if `RAMIE_DUMP_FILE` names one.
///
/// # Errors
/// `InvalidInput`: the path is relative, so it would depend on the directory at the time of the
/// signal.
fn dump_file() -> io::Result<Option<PathBuf>> {
    const EXPECTED: &str = "an absolute path, such as /tmp/dumps";
    let Some(value) = env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(&value);
    let wrong = || invalid(ramie_driver::invalid_value(FILE_VARIABLE, &value, EXPECTED));
    if path.is_absolute() { Ok(Some(path)) } else { Err(wrong()) }
}
