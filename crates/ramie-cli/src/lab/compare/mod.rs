//! `ramie lab compare`: the changes between two labs beyond the spread and a threshold.
//!
//! [`verdict`] has the statistics of a point, [`pairing`] finds the points that both labs have,
//! [`text`] and [`page`] are the two forms of the answer.

mod page;
mod pairing;
mod text;
mod verdict;

use self::pairing::Pairing;
use super::results::{Quiet, Results, folder, record};
use crate::{
    arguments::{CompareArguments, Percentage},
    failure::Failure,
    output,
};

/// Two labs side by side.
#[derive(Debug)]
struct Both {
    old: Results,
    new: Results,
    threshold: Percentage,
    pairing: Pairing,
}

impl Both {
    fn of(old: Results, new: Results, threshold: Percentage) -> Self {
        let pairing = Pairing::of(&old, &new, threshold.share());
        Both { old, new, threshold, pairing }
    }

    /// Reasons to doubt the comparison, in sentences.
    fn warnings(&self) -> Vec<String> {
        let (old, new) = (&self.old, &self.new);
        let machine = old.machine.other_hardware(&new.machine).map(|difference| {
            format!(
                "these are two machines, or one that changed: {difference}; so a change may be \
                     the machine's"
            )
        });
        let plan = (self.pairing.is_partial()).then(|| {
            format!(
                "the plans differ ({} and {}), so only the {} points of both are compared",
                old.request.selection,
                new.request.selection,
                self.pairing.pairs.len()
            )
        });
        let environment = (old.request.environment != new.request.environment)
            .then(|| "the variables RAMIE_* differ, so a change may be theirs".to_owned());
        let partial = [("OLD", old), ("NEW", new)].into_iter().filter(|(_, lab)| lab.is_partial);
        let partial =
            partial.map(|(name, _)| format!("{name} is partial, because it was interrupted"));
        let noise = [("OLD", old), ("NEW", new)].into_iter().flat_map(|(name, lab)| {
            let noisy = Quiet::of(lab).filter(|quiet| !quiet.is_quiet);
            let noisy = noisy.map(|quiet| quiet.sentence).into_iter();
            noisy.chain(lab.warnings()).map(move |warning| format!("{name}: {warning}"))
        });
        machine.into_iter().chain(plan).chain(environment).chain(partial).chain(noise).collect()
    }
}

/// Prints the comparison. A regression is exit code 1.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    let (old, new) = (record::read(&arguments.old)?, record::read(&arguments.new)?);
    let both = Both::of(old, new, arguments.threshold);
    if both.pairing.pairs.is_empty() {
        return Err(Failure::usage(
            "the two labs have no point in common, so there is nothing to compare; measure both \
             with the same flags",
        ));
    }
    for warning in both.warnings() {
        output::warn(&warning);
    }
    for line in text::lines(&both) {
        output::line(&line)?;
    }
    if let Some(path) = &arguments.html {
        let written = folder::write_file(path, &page::page(&both), "--html");
        output::line(&format!("page: {}", written?.display()))?;
    }
    if both.pairing.has_regression() {
        return Err(Failure::already_reported(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
