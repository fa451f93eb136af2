//! How quiet the machine was, and the verdict that stands at the top of the report.

use serde::{Deserialize, Serialize};

use super::{Results, Summary};

/// One check of the machine, of the time since the check before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noise {
    /// The round that had ended; 0 before the first.
    pub(crate) round: u32,
    pub(crate) at_s: f64,
    /// The time since the check before, in seconds.
    pub(crate) watched_s: f64,
    /// The median and the most of a loop that always does the same, whose passes are shorter than
    /// the time slices of other processes: the median shows the speed of the CPU, and no load.
    pub(crate) control_ns: f64,
    pub(crate) slowest_control_ns: f64,
    /// The share of the CPU time that other processes took.
    pub(crate) others: Option<f64>,
    /// The share of the CPU time that the host of a virtual machine took.
    pub(crate) steal: Option<f64>,
    /// By how many seconds the clock of the wall was set.
    pub(crate) clock_jump_s: f64,
}

/// Above these, the machine was not quiet.
const OTHERS_MAX: f64 = 0.1;
const STEAL_MAX: f64 = 0.02;
const CONTROL_MAX: f64 = 0.05;

/// The verdict on the noise during a lab.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quiet {
    pub(crate) is_quiet: bool,
    /// One sentence, without the full stop.
    pub(crate) sentence: String,
}

impl Quiet {
    /// `None` if the machine was not checked.
    pub(crate) fn of(results: &Results) -> Option<Self> {
        let noise = &results.noise;
        let others = mean(noise, |check| check.others);
        let steal = mean(noise, |check| check.steal);
        let control = control(noise);
        let parts = [
            others.map(|share| format!("other processes took {} of the CPU time", of(share))),
            steal.map(|share| format!("a virtual machine's host {}", of(share))),
            control.map(|range| {
                format!(
                    "the speed of a CPU, measured by a fixed loop several times, differed by {}",
                    of(range)
                )
            }),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let (last, first) = parts.split_last()?;
        let facts = match first {
            [] => last.clone(),
            first => format!("{} and {last}", first.join(", ")),
        };
        let above = |value: Option<f64>, most| value.is_some_and(|value| value > most);
        let is_quiet =
            !above(others, OTHERS_MAX) && !above(steal, STEAL_MAX) && !above(control, CONTROL_MAX);
        let sentence = match is_quiet {
            true => format!("The machine was quiet: {facts}"),
            false => format!(
                "The machine was not quiet: {facts}; so figures and ratios may be far off: leave \
                 it alone and run the lab again"
            ),
        };
        Some(Quiet { is_quiet, sentence })
    }
}

/// The average share over all checks, each as long as it watched.
fn mean(noise: &[Noise], share: impl Fn(&Noise) -> Option<f64>) -> Option<f64> {
    let watched = noise.iter().filter_map(|check| Some((share(check)?, check.watched_s)));
    let (sum, time) = watched
        .fold((0.0, 0.0), |(sum, time), (share, watched)| (sum + share * watched, time + watched));
    (time > 0.0).then(|| sum / time)
}

/// The range of the control loop's medians, as a share of the least.
fn control(noise: &[Noise]) -> Option<f64> {
    let range = Summary::of(noise.iter().map(|check| check.control_ns))?;
    (noise.len() > 1).then(|| range.most / range.least - 1.0)
}

fn of(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A sentence about the clock of the wall, if somebody set it.
pub(crate) fn clock_warning(results: &Results) -> Option<String> {
    let jump: f64 = results.noise.iter().map(|check| check.clock_jump_s.abs()).sum();
    (jump > 0.0).then(|| {
        format!(
            "the clock of the wall jumped by {jump:.0} s; the figures are taken by another clock, \
             so they are not affected"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{plan::Selection, results::sample::lab};

    fn check(control_ns: f64, others: f64, steal: f64) -> Noise {
        Noise {
            round: 1,
            at_s: 1.0,
            watched_s: 1.0,
            control_ns,
            slowest_control_ns: control_ns,
            others: Some(others),
            steal: Some(steal),
            clock_jump_s: 0.0,
        }
    }

    fn verdict(noise: Vec<Noise>) -> Option<Quiet> {
        let mut results = lab(Selection::Tiny, 1, |_, _| Some(1.0));
        results.noise = noise;
        Quiet::of(&results)
    }

    #[test]
    fn the_verdict_names_its_facts() {
        let quiet = verdict(vec![check(100.0, 0.01, 0.0), check(102.0, 0.03, 0.01)]).unwrap();
        assert!(quiet.is_quiet);
        assert_eq!(
            quiet.sentence,
            "The machine was quiet: other processes took 2.0 % of the CPU time, a virtual \
             machine's host 0.5 % and the speed of a CPU, measured by a fixed loop several times, \
             differed by 2.0 %"
        );
        for noisy in [check(110.0, 0.0, 0.0), check(100.0, 0.5, 0.0), check(100.0, 0.0, 0.1)] {
            let verdict = verdict(vec![check(100.0, 0.0, 0.0), noisy]).unwrap();
            assert!(!verdict.is_quiet && verdict.sentence.contains("was not quiet"));
        }
    }

    #[test]
    fn a_clock_that_was_set_is_mentioned_and_changes_no_figure() {
        let mut results = lab(Selection::Tiny, 1, |_, _| Some(1.0));
        results.noise = vec![check(100.0, 0.0, 0.0)];
        let before = results.clone();
        assert_eq!(clock_warning(&results), None);
        for jump in [3600.0, -3600.0] {
            results.noise[0].clock_jump_s = jump;
            let warning = clock_warning(&results).unwrap();
            assert!(warning.contains("jumped by 3600 s"), "{warning}");
            let page = crate::lab::report::page::page(&results).unwrap();
            assert!(page.contains(&warning), "the page warns, too");
            assert_eq!(Quiet::of(&results), Quiet::of(&before));
            assert_eq!(results.finished, before.finished);
        }
    }

    #[test]
    fn facts_that_are_missing_are_left_out() {
        assert_eq!(verdict(Vec::new()), None);
        let mut only = check(100.0, 0.0, 0.0);
        (only.others, only.steal) = (None, Some(0.0));
        let quiet = verdict(vec![only]).unwrap();
        assert_eq!(quiet.sentence, "The machine was quiet: a virtual machine's host 0.0 %");
    }
}
