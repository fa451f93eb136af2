//! The engines that `--on` offers for each workload.

use std::ffi::OsStr;

use clap::{
    Arg, Error, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::{ContextKind, ContextValue},
};

use crate::workload::Engine;

/// Lists the engines of one workload as possible values, but accepts every engine, because the
/// workload's own check names the reason and the remedy for an unsupported one.
#[derive(Clone)]
pub(super) struct EngineParser(pub(super) &'static [Engine]);

impl TypedValueParser for EngineParser {
    type Value = Engine;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Engine, Error> {
        let on = EnumValueParser::new().parse_ref(command, argument, value);
        on.map_err(|mut error| {
            let names = self.0.iter().map(|on| on.name().to_owned()).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new(self.0.iter().filter_map(ValueEnum::to_possible_value)))
    }
}
