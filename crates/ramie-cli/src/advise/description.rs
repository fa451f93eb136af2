//! The description of the work: from flags, from a TOML file with the same names, or from answers.
//!
//! The same parsers read all three, so a wrong value gets the same error message.

use std::{fs, ops::Range, path::Path};

use clap::ValueEnum;
use ramie_workloads::{
    Mix, count,
    mix::{Seconds, WaitFor, percent},
};

use super::{flags::Advise, questions};
use crate::{failure::Failure, lab::figure::counted};

/// The work to advise on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Description {
    /// Its seconds are those of one measurement, and not set yet.
    pub(super) mix: Mix,
    /// In bytes.
    pub(super) memory_limit: Option<u64>,
    /// The time for all measurements.
    pub(super) seconds: Seconds,
}

/// The parts of a description that the user has given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Given {
    concurrency: Option<u32>,
    cpu_us: Option<u32>,
    wait_us: Option<u32>,
    wait: Option<WaitFor>,
    jitter: Option<u32>,
    blocking: Option<bool>,
    memory_limit: Option<u32>,
    seconds: Option<Seconds>,
}

/// The names of all parts, those first that have no default.
pub(super) const KEYS: [&str; 8] =
    ["concurrency", "cpu-us", "wait-us", "wait", "jitter", "blocking", "memory-limit", "seconds"];
const REQUIRED: usize = 4;

impl Given {
    /// Reads the value of one part.
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "concurrency" => self.concurrency = Some(count(text)?),
            "cpu-us" => self.cpu_us = Some(count(text)?),
            "wait-us" => self.wait_us = Some(count(text)?),
            "wait" => {
                let names = WaitFor::ALL.map(WaitFor::name).join(", ");
                let wait = WaitFor::from_str(text, false);
                self.wait = Some(wait.map_err(|_| format!("expected one of {names}"))?);
            }
            "jitter" => self.jitter = Some(percent(text)?),
            "blocking" => {
                self.blocking = Some(match text {
                    "true" | "yes" | "y" => true,
                    "false" | "no" | "n" => false,
                    _ => return Err("expected true or false".to_owned()),
                });
            }
            "memory-limit" => self.memory_limit = Some(count(text)?),
            "seconds" => self.seconds = Some(text.parse()?),
            _ => return Err(format!("unknown key; expected one of {}", KEYS.join(", "))),
        }
        Ok(())
    }

    fn of_flags(flags: &Advise) -> Self {
        Given {
            concurrency: flags.concurrency,
            cpu_us: flags.cpu_us,
            wait_us: flags.wait_us,
            wait: flags.wait,
            jitter: flags.jitter,
            blocking: flags.blocking.then_some(true),
            memory_limit: flags.memory_limit,
            seconds: flags.seconds,
        }
    }

    fn of_file(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("cannot read {name} ({error}); name a TOML file by --file"))
        })?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            Failure::usage(format!(
                "{name} is no TOML: {}{}",
                place(&text, error.span()),
                error.message().replace('\n', ", ")
            ))
        })?;
        let mut given = Given::default();
        for (key, value) in table {
            let text = text_of(&key, &value).map_err(|expected| {
                let of_type = value.type_str();
                Failure::usage(format!("`{key}` in {name} is of type {of_type}; write {expected}"))
            })?;
            given.set(&key, &text).map_err(|why| {
                Failure::usage(match KEYS.contains(&key.as_str()) {
                    true => format!("invalid value `{text}` for {key} in {name}: {why}"),
                    false => format!("`{key}` in {name}: {why}"),
                })
            })?;
        }
        Ok(given)
    }

    /// The parts of `self`, and of `other` where `self` has none.
    fn or(self, other: Given) -> Self {
        Given {
            concurrency: self.concurrency.or(other.concurrency),
            cpu_us: self.cpu_us.or(other.cpu_us),
            wait_us: self.wait_us.or(other.wait_us),
            wait: self.wait.or(other.wait),
            jitter: self.jitter.or(other.jitter),
            blocking: self.blocking.or(other.blocking),
            memory_limit: self.memory_limit.or(other.memory_limit),
            seconds: self.seconds.or(other.seconds),
        }
    }

    fn description(self) -> Result<Description, Failure> {
        let has = [
            self.concurrency.is_some(),
            self.cpu_us.is_some(),
            self.wait_us.is_some(),
            self.wait.is_some(),
        ];
        let missing = || {
            let missing = KEYS[..REQUIRED].iter().zip(has).filter(|(_, has)| !has);
            let missing: Vec<_> = missing.map(|(key, _)| format!("--{key}")).collect();
            Failure::usage(format!(
                "missing {}; give them as flags or in a TOML file (--file), or give nothing at a \
                 terminal to be asked; see ramie advise --help",
                missing.join(", ")
            ))
        };
        let (Some(concurrency), Some(cpu_us), Some(wait_us), Some(wait)) =
            (self.concurrency, self.cpu_us, self.wait_us, self.wait)
        else {
            return Err(missing());
        };
        let seconds = self.seconds.unwrap_or(DEFAULT_SECONDS);
        let mix = Mix {
            concurrency,
            cpu_us,
            wait_us,
            wait,
            jitter: self.jitter.unwrap_or(0),
            seconds,
            blocking: self.blocking.unwrap_or(false),
        };
        let memory_limit = self.memory_limit.map(|mib| u64::from(mib) << 20);
        Ok(Description { mix, memory_limit, seconds })
    }
}

/// The place of an error in a text: `line 2, column 7: `; empty if it is not known.
fn place(text: &str, span: Option<Range<usize>>) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else { return String::new() };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: ")
}

/// A value of a file as the text that [`Given::set`] reads; if it has the wrong type, an example of
/// the right one.
fn text_of(key: &str, value: &toml::Value) -> Result<String, String> {
    use toml::Value;
    match (key, value) {
        ("wait", Value::String(text)) => Ok(text.clone()),
        ("wait", _) => Err("a string, such as wait = \"socket\"".to_owned()),
        ("blocking", Value::Boolean(is_so)) => Ok(is_so.to_string()),
        ("blocking", _) => Err("a boolean, without quotation marks: blocking = true".to_owned()),
        (_, Value::Integer(number)) => Ok(number.to_string()),
        // The parser of the key decides whether it may be a fraction.
        (_, Value::Float(number)) => Ok(number.to_string()),
        _ if KEYS.contains(&key) => {
            Err(format!("a number, without quotation marks, such as {key} = 10"))
        }
        // An unknown key is refused together with the list of those that are known.
        _ => Ok(String::new()),
    }
}

const DEFAULT_SECONDS: Seconds = Seconds::from_secs(60);

impl Description {
    /// The description that the command line gives, or the answers at a terminal.
    pub(super) fn find(flags: &Advise) -> Result<Self, Failure> {
        let of_flags = Given::of_flags(flags);
        let of_file = flags.file.as_deref().map(Given::of_file).transpose()?;
        // --seconds alone is no description.
        let nothing = Given { seconds: flags.seconds, ..Given::default() };
        let given = match of_file {
            Some(of_file) => of_flags.or(of_file),
            None if of_flags == nothing && questions::can_ask() => of_flags.or(questions::ask()?),
            None => of_flags,
        };
        given.description()
    }

    /// The description in words, such as `1,000 strands, each 5 µs of CPU, then 200 µs (socket)`.
    pub(super) fn text(&self) -> String {
        let mix = &self.mix;
        let jitter = match mix.jitter {
            0 => String::new(),
            percent => format!(", each ± {percent} %"),
        };
        let blocking = if mix.blocking { " in a library that blocks" } else { "" };
        format!(
            "{}, each step {} µs of CPU and {} µs of waiting ({}){blocking}{jitter}",
            counted(mix.concurrency.into(), "strands"),
            mix.cpu_us,
            mix.wait_us,
            mix.wait.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Given;

    #[test]
    fn each_part_has_a_parser() {
        let mut given = Given::default();
        for (key, good, bad) in [
            ("concurrency", "1000", "0"),
            ("cpu-us", "5", "-1"),
            ("wait-us", "200", "1.5"),
            ("wait", "socket", "sleep"),
            ("jitter", "50", "101"),
            ("blocking", "true", "perhaps"),
            ("memory-limit", "64", "0"),
            ("seconds", "20", "0"),
        ] {
            assert!(given.set(key, bad).is_err(), "{key}");
            given.set(key, good).unwrap();
        }
        let description = given.clone().description().unwrap();
        assert_eq!((description.mix.concurrency, description.memory_limit), (1000, Some(64 << 20)));
        assert!(given_text(&description.text()), "{}", description.text());
        given.set("concurrency", "1").unwrap();
        assert!(given.description().unwrap().text().starts_with("1 strand, each step 5 µs"));
        assert!(Given::default().set("colour", "red").unwrap_err().contains("memory-limit"));
    }

    fn given_text(text: &str) -> bool {
        text.starts_with("1,000 strands") && text.ends_with("a library that blocks, each ± 50 %")
    }
}
