//! The raw records in the page: a table of all readings of an experiment, and the links to them.

use std::fmt::Write;

use super::page::escape;
use crate::lab::{
    figure::thousands,
    plan::Arm,
    results::{Finished, Outcome},
};

/// The id of the first record of a point. It names the experiment, the arm and x.
pub(super) fn id(experiment: &str, arm: Arm, x: u64) -> String {
    let arm = arm.name().replace('×', "-");
    format!("raw-{experiment}-{}-{x}", arm.replace(' ', ""))
}

/// A figure that links to its records.
pub(super) fn linked(text: &str, experiment: &str, arm: Arm, x: u64) -> String {
    format!("<a href=\"#{}\">{text}</a>", id(experiment, arm, x))
}

/// A table of all readings that count, in the order in which they were taken.
pub(super) fn table(html: &mut String, finished: &Finished) {
    let experiment = &finished.experiment;
    let figures = figures_of(finished);
    let _ = write!(
        html,
        "<details><summary>{}: all readings</summary><div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">{}</th><th scope=\"col\">arm</th><th scope=\"col\">round</th>\
         <th scope=\"col\">seconds</th><th scope=\"col\">ns per op</th>\
         <th scope=\"col\">CPU seconds</th>",
        escape(&experiment.title),
        escape(&experiment.x_noun)
    );
    for name in &figures {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(name));
    }
    html.push_str("<th scope=\"col\">its process ended at</th></tr></thead>\n");
    for outcome in &finished.outcomes {
        rows(html, &experiment.name, outcome, &figures);
    }
    html.push_str("</table></div></details>\n");
}

fn rows(html: &mut String, experiment: &str, outcome: &Outcome, figures: &[String]) {
    let (arm, x) = (outcome.subject.arm, outcome.subject.x);
    for (index, reading) in outcome.counted().enumerate() {
        let id = match index {
            0 => format!(" id=\"{}\"", id(experiment, arm, x)),
            _ => String::new(),
        };
        let _ = write!(
            html,
            "<tr{id}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            thousands(x),
            arm.name(),
            reading.round,
            number(reading.seconds),
            number(reading.per_op_ns),
            reading.cpu_s.map_or_else(|| "–".to_owned(), number)
        );
        for name in figures {
            match reading.figure(name) {
                Some(value) => _ = write!(html, "<td>{}</td>", number(value)),
                None => html.push_str("<td>–</td>"),
            }
        }
        let _ = writeln!(html, "<td>{}</td></tr>", escape(&reading.time));
    }
}

/// A figure with nine decimals at most, which are more than it has: its other digits are those of
/// the binary fraction. The files beside the page have them.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The names of the further figures that a reading of the experiment has.
fn figures_of(finished: &Finished) -> Vec<String> {
    let mut names = Vec::new();
    for reading in finished.outcomes.iter().flat_map(Outcome::counted) {
        for (name, _) in reading.numbers() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_no_digits_of_its_binary_fraction() {
        for (value, text) in [
            (13_100.500_000_000_002, "13100.5"),
            (386.049_999_999_999_9, "386.05"),
            (0.000_031_407, "0.000031407"),
            (1_000.0, "1000"),
            (0.0, "0"),
            (-0.25, "-0.25"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
