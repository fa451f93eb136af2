//! Errors of the command line, each as one sentence instead of clap's paragraph.

use std::{env, process::ExitCode};

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

use crate::{arguments, failure::Failure, output};

/// Prints help if the command line asks for it (exit code 0), else the error (exit code 2).
pub(crate) fn report(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => print(&error.render().to_string()),
        // `ramie help --help`
        ErrorKind::InvalidSubcommand if wants_help(error) => {
            print(&command_in_question().render_long_help().to_string())
        }
        _ => Failure::usage(sentence(error)).report(),
    }
}

fn print(help: &str) -> ExitCode {
    output::line(help.trim_end()).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn wants_help(error: &Error) -> bool {
    let wrong = error.get(ContextKind::InvalidSubcommand).map(text).unwrap_or_default();
    wrong == "--help" || wrong == "-h"
}

fn sentence(error: &Error) -> String {
    let get = |kind| error.get(kind).map(text).unwrap_or_default();
    let argument = flag_only(&get(ContextKind::InvalidArg));
    let value = get(ContextKind::InvalidValue);
    let help = help_command();
    match error.kind() {
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("invalid value `{value}` for {argument}: {why}")
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{argument} needs a value; see {help}")
        }
        ErrorKind::InvalidValue => {
            let valid = get(ContextKind::ValidValue);
            format!("invalid value `{value}` for {argument}: expected one of {valid}")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("missing {}; see {help}", get(ContextKind::InvalidArg))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("missing {}; see {help}", noun_of_commands())
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = get(ContextKind::InvalidSubcommand);
            let noun = noun_of_commands();
            format!("unknown {noun} `{wrong}`{}; see {help}", suggestion(error))
        }
        ErrorKind::UnknownArgument => {
            let limit = (!argument.starts_with('-')).then(limit_of_positionals).flatten();
            let hint = limit.unwrap_or_else(|| suggestion(error));
            format!("unknown argument {argument}{hint}; see {help}")
        }
        ErrorKind::ArgumentConflict => match flag_only(&get(ContextKind::PriorArg)) {
            other if other == argument => format!("{argument} is given twice; give it once"),
            other => format!("{argument} and {other} exclude each other; omit one of them"),
        },
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            format!("{}; see {help}", first.trim_start_matches("error: "))
        }
    }
}

fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(", "),
        ContextValue::StyledStr(styled) => styled.to_string(),
        other => other.to_string(),
    }
}

/// `--people <P>` and `--web [<ADDR>]` become `--people` and `--web`; `[PID]` and `<PID>` become
/// `PID`.
fn flag_only(argument: &str) -> String {
    let flag = argument.split([' ', '=']).next().filter(|_| argument.starts_with('-'));
    let flag = flag.unwrap_or(argument);
    flag.trim_matches(['[', ']', '<', '>']).to_owned()
}

fn suggestion(error: &Error) -> String {
    let suggested = error
        .get(ContextKind::SuggestedSubcommand)
        .or_else(|| error.get(ContextKind::SuggestedArg))
        .map(text);
    suggested.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

/// The help command of the innermost command on the command line, such as `ramie run feed --help`.
fn help_command() -> String {
    let command = command_in_question();
    format!("{} --help", command.get_bin_name().unwrap_or("ramie"))
}

/// Why an argument is one too many. None if the innermost command takes options only.
fn limit_of_positionals() -> Option<String> {
    let command = command_in_question();
    let names: Vec<_> =
        command.get_positionals().flat_map(|one| one.get_value_names()).flatten().collect();
    match names[..] {
        [] => None,
        [one] => Some(format!(": only one {one} is allowed")),
        [ref all @ .., last] => {
            let all: Vec<_> = all.iter().map(|one| one.as_str()).collect();
            Some(format!(": only {} and {last} are allowed", all.join(", ")))
        }
    }
}

/// What the commands of the innermost command are.
fn noun_of_commands() -> &'static str {
    if command_in_question().get_name() == "run" { "workload" } else { "command" }
}

/// The innermost command that the command line names.
fn command_in_question() -> Command {
    let mut command = arguments::command();
    command.build();
    // Not `env::args`, which panics if an argument is not UTF-8.
    for word in env::args_os().skip(1).filter(|word| word != "help") {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner.clone();
        }
    }
    command
}
