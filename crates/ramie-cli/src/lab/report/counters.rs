//! The counters in the page: a table for each experiment, with the reasons for those that are
//! missing.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::Value;

use super::page::escape;
use crate::{
    counters::NAMES,
    lab::{
        figure::{counted, thousands},
        plan::Arm,
        results::{CountedRun, Covers, Finished},
    },
};

/// A table of all counters of an experiment, with a column for each arm; nothing if none was
/// counted.
pub(super) fn table(html: &mut String, finished: &Finished) {
    let experiment = &finished.experiment;
    let runs: Vec<(Arm, u64, &CountedRun)> = finished
        .outcomes
        .iter()
        .filter_map(|outcome| {
            Some((outcome.subject.arm, outcome.subject.x, outcome.counters.as_ref()?))
        })
        .collect();
    let Some((_, x, _)) = runs.first() else { return };
    let _ = write!(
        html,
        "<details><summary>{}: counters</summary><div class=\"scroll\"><table>\n\
         <caption>One more run at {}, whose time is in no figure</caption>\n\
         <thead><tr><th scope=\"col\">counter</th>",
        escape(&experiment.title),
        escape(&counted(*x, &experiment.x_noun))
    );
    for (arm, _, run) in &runs {
        let whole = if run.covers == Covers::Process { ", whole process" } else { "" };
        let _ = write!(html, "<th scope=\"col\">{}{whole}</th>", arm.name());
    }
    html.push_str("</tr></thead>\n<tr><th scope=\"row\">operations</th>");
    for (.., run) in &runs {
        let _ = write!(html, "<td>{}</td>", run.ops.map_or("–".to_owned(), thousands));
    }
    html.push_str("</tr>\n");
    for name in NAMES {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", noun(name));
        for (.., run) in &runs {
            let _ = write!(html, "<td>{}</td>", text(name, run.values.get(name)));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
    reasons(html, &runs);
    html.push_str("</details>\n");
}

/// The name of a counter in words: `user_s` becomes `user seconds`.
fn noun(name: &str) -> String {
    let words = name.replace('_', " ").replace("rss", "RSS");
    match words.strip_suffix(" s") {
        Some(of_time) => format!("{of_time} seconds"),
        None => words,
    }
}

fn text(name: &str, value: Option<&Value>) -> String {
    match value {
        Some(value) if value.is_u64() => thousands(value.as_u64().unwrap_or(0)),
        Some(value) if value.is_number() => {
            let number = value.as_f64().unwrap_or(0.0);
            if name.ends_with("_s") { format!("{number:.6}") } else { format!("{number:.3}") }
        }
        _ => "–".to_owned(),
    }
}

/// Why counters are missing: each reason once, with the counters and the arms.
fn reasons(html: &mut String, runs: &[(Arm, u64, &CountedRun)]) {
    let mut reasons: BTreeMap<(&str, Vec<String>), Vec<String>> = BTreeMap::new();
    for (arm, _, run) in runs {
        let mut of_arm: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for name in NAMES {
            if let Some(reason) = run.unavailable.get(name) {
                of_arm.entry(reason).or_default().push(noun(name));
            }
        }
        for (reason, names) in of_arm {
            reasons.entry((reason, names)).or_default().push(arm.name());
        }
    }
    for ((reason, names), arms) in reasons {
        let names = if names.len() == NAMES.len() { "all".to_owned() } else { names.join(", ") };
        let _ = writeln!(
            html,
            "<p class=\"faint\">Not available on {}: {} ({})</p>",
            arms.join(", "),
            names,
            escape(reason)
        );
    }
}
