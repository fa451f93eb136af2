//! The report: one page without external files, for the screen, dark mode and the printer.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    chart,
    figure::{amount, factor, thousands},
    finding::{self, Lead},
    plan::View,
    results::{Finished, NotMeasured, Outcome, Results, Series},
};
use crate::{failure::Failure, workload::Engine};

const STYLE: &str = include_str!("page.css");

pub(super) fn page(results: &Results) -> Result<String, Failure> {
    let mut html = String::new();
    head(&mut html);
    opening(&mut html, results);
    tiles(&mut html, results);
    machine(&mut html, results);
    feeding(&mut html, results)?;
    for finished in &results.finished {
        if !is_feed(finished) {
            section(&mut html, finished)?;
        }
    }
    where_threads_win(&mut html, results);
    method(&mut html, results);
    not_measured(&mut html, results);
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

fn head(html: &mut String) {
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Ramie lab: threads, fibers and a hybrid</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn paragraph(html: &mut String, class: &str, text: &str) {
    let _ = writeln!(html, "<p class=\"{class}\">{}</p>", escape(text));
}

fn is_feed(finished: &Finished) -> bool {
    finished.experiment.name.starts_with("feed-")
}

fn opening(html: &mut String, results: &Results) {
    html.push_str("<h1>Threads, fibers and a hybrid, on this machine</h1>\n");
    paragraph(
        html,
        "lead",
        "The same workloads on OS threads, on fibers of one worker, and on fibers of several \
         workers (hybrid); and workloads of one task on a fiber, as futures and as a coroutine. \
         Lower is better in every figure.",
    );
    if results.is_partial {
        paragraph(
            html,
            "notice",
            "This report is partial: the lab was interrupted, so it has only the readings taken \
             until then.",
        );
    }
    if results.machine.profile == "debug" {
        paragraph(
            html,
            "notice",
            "This is a debug build, in which fibers are many times slower. Run `cargo run \
             --release` for meaningful figures.",
        );
    }
    if let Some(overview) = finding::feed_overview(results) {
        paragraph(html, "", &(overview + "."));
    }
}

/// Fibers beside their baseline, at the largest x of both.
fn tiles(html: &mut String, results: &Results) {
    html.push_str("<div class=\"tiles\">\n");
    for finished in results.finished.iter().filter(|finished| !is_feed(finished)) {
        if let Some(view) = finished.experiment.views.first() {
            tile(html, finished, *view);
        }
    }
    html.push_str("</div>\n");
}

fn tile(html: &mut String, finished: &Finished, view: View) {
    let series = finished.series(view.quantity);
    let Some(rival) = finished.experiment.baseline() else { return };
    let (Some(fibers), Some(others)) = (series.get(&Engine::Fibers), series.get(&rival)) else {
        return;
    };
    let Some(x) = finding::comparisons(fibers, others).last().map(|comparison| comparison.x) else {
        return;
    };
    let _ = write!(
        html,
        "<div class=\"tile\"><div class=\"what\">{}<br>{} {}</div><div class=\"pair\">",
        escape(view.title),
        thousands(x),
        finished.experiment.x_noun
    );
    for (on, series) in [(Engine::Fibers, fibers), (rival, others)] {
        let Some((_, summary)) = series.iter().find(|(other, _)| *other == x) else { continue };
        let _ = write!(
            html,
            "<div class=\"on-{0}\"><b>{1}</b><span class=\"of\">{0}</span></div>",
            on.name(),
            amount(view.quantity, summary.median)
        );
    }
    html.push_str("</div></div>\n");
}

fn machine(html: &mut String, results: &Results) {
    html.push_str("<dl>\n");
    for (name, value) in results.machine.rows() {
        let value = match name {
            "CPU" => format!("{value}, {} CPUs", results.machine.cpus),
            _ => value.to_owned(),
        };
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    html.push_str("</dl>\n");
}

fn feeding(html: &mut String, results: &Results) -> Result<(), Failure> {
    let feeds: Vec<_> = results.finished.iter().filter(|finished| is_feed(finished)).collect();
    let Some(first) = feeds.first() else { return Ok(()) };
    html.push_str("<h2>Feeding people</h2>\n");
    paragraph(html, "", first.experiment.about);
    leads(html, &feeds);
    html.push_str("<div class=\"charts\">\n");
    for finished in &feeds {
        for view in &finished.experiment.views {
            figure(html, finished, *view, &finished.experiment.title)?;
        }
    }
    html.push_str("</div>\n");
    for finished in feeds {
        table(html, finished);
    }
    Ok(())
}

/// The leader, fibers or threads, at each number of people and nutrients.
fn leads(html: &mut String, feeds: &[&Finished]) {
    let rows: Vec<_> = feeds
        .iter()
        .filter_map(|finished| Some((*finished, finding::fibers_against_threads(finished)?)))
        .collect();
    let Some(xs) =
        rows.iter().map(|(_, comparisons)| comparisons).max_by_key(|comparisons| comparisons.len())
    else {
        return;
    };
    html.push_str("<div class=\"scroll\"><table class=\"leads\">\n<thead><tr><th>people</th>");
    for comparison in xs {
        let _ = write!(html, "<th>{}</th>", thousands(comparison.x));
    }
    html.push_str("</tr></thead>\n");
    for (finished, comparisons) in &rows {
        let nutrients = finished.experiment.name.trim_start_matches("feed-");
        let nutrients = nutrients.parse().map_or(nutrients.to_owned(), thousands);
        let _ = write!(html, "<tr><td>{nutrients} nutrients</td>");
        for column in xs {
            match comparisons.iter().find(|comparison| comparison.x == column.x) {
                Some(comparison) => lead_cell(html, comparison),
                None => html.push_str("<td>–</td>"),
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
    paragraph(html, "faint", "The faster of fibers and threads, and by how much.");
}

fn lead_cell(html: &mut String, comparison: &finding::Comparison) {
    let name = match comparison.lead() {
        Lead::First => "fibers",
        Lead::Second => "threads",
        Lead::Even => {
            html.push_str("<td>even</td>");
            return;
        }
    };
    // A factor of ten or more has the full colour, which is pale enough for the text on it.
    let strength = 0.1 + 0.35 * comparison.margin().log10().min(1.0);
    let _ = write!(
        html,
        "<td style=\"background:rgba(var(--{name}-wash),{strength:.2})\">{}<small>{name}</small>\
         </td>",
        factor(comparison.margin())
    );
}

fn section(html: &mut String, finished: &Finished) -> Result<(), Failure> {
    let experiment = &finished.experiment;
    let _ = writeln!(html, "<h2>{}</h2>", escape(&experiment.title));
    paragraph(html, "", experiment.about);
    html.push_str("<div class=\"charts\">\n");
    for view in &experiment.views {
        figure(html, finished, *view, "")?;
    }
    html.push_str("</div>\n");
    table(html, finished);
    Ok(())
}

/// A chart and its finding; only the finding if there is one x. An empty title means the view's.
fn figure(html: &mut String, finished: &Finished, view: View, title: &str) -> Result<(), Failure> {
    let finding = escape(&finding::of_view(finished, view));
    let Some(svg) = chart::chart(finished, view)? else {
        let _ = writeln!(html, "<p>{finding}</p>");
        return Ok(());
    };
    let title = escape(if title.is_empty() { view.title } else { title });
    let svg = svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1);
    let _ = writeln!(
        html,
        "<figure><h3>{title}</h3>\n{svg}\n<figcaption>{finding}</figcaption></figure>"
    );
    Ok(())
}

/// A table of all figures of an experiment.
fn table(html: &mut String, finished: &Finished) {
    let experiment = &finished.experiment;
    let _ = write!(
        html,
        "<details><summary>{}: all figures</summary><div class=\"scroll\"><table>\n<thead><tr>\
         <th>{}</th>",
        escape(&experiment.title),
        experiment.x_noun
    );
    let engines = experiment.engines();
    for view in &experiment.views {
        for on in &engines {
            let _ = write!(html, "<th>{}, {}</th>", view.title.to_lowercase(), on.name());
        }
    }
    html.push_str("</tr></thead>\n");
    let mut xs: Vec<_> = experiment.points.iter().map(|point| point.x).collect();
    xs.dedup();
    for x in xs {
        let _ = write!(html, "<tr><td>{}</td>", thousands(x));
        for view in &experiment.views {
            let series = finished.series(view.quantity);
            for on in &engines {
                html.push_str(&figure_cell(series.get(on), x, *view));
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div></details>\n");
}

fn figure_cell(series: Option<&Series>, x: u64, view: View) -> String {
    let found = series.and_then(|series| series.iter().find(|(other, _)| *other == x));
    match found {
        Some((_, summary)) => format!("<td>{}</td>", amount(view.quantity, summary.median)),
        None => "<td>–</td>".to_owned(),
    }
}

fn where_threads_win(html: &mut String, results: &Results) {
    html.push_str("<h2>Where threads win</h2>\n<ul>\n");
    for sentence in finding::where_threads_win(results) {
        let _ = writeln!(html, "<li>{}</li>", escape(&sentence));
    }
    html.push_str("</ul>\n");
    paragraph(
        html,
        "",
        "Threads are also the better choice for work that only computes, because the kernel \
         preempts them and spreads them over all CPUs, while a fiber that never waits keeps its \
         worker busy.",
    );
}

fn method(html: &mut String, results: &Results) {
    for warning in results.warnings() {
        let _ = writeln!(html, "<p><strong>Warning:</strong> {warning}.</p>");
    }
    let _ = write!(
        html,
        "<h2>How this was measured</h2>\n<ul>\n\
         <li>In the feeding, a fiber yields to the scheduler after each nutrient, a thread does \
         not, because the kernel preempts it. So fibers pay for a switch per nutrient, and threads \
         hardly ever.</li>\n\
         <li>Time is measured from before the first spawn to after the last join, without the \
         start of the runtime. Each run checks its own result.</li>\n\
         <li>Every point ran in its own processes, in up to {} rounds over the whole grid within \
         {:.0} s; short points three times in a process. Points that did not fit into the time \
         have fewer rounds.</li>\n\
         <li>Figures are medians; the thin bars in the charts reach from the lowest to the highest \
         reading.</li>\n\
         <li>Every reading is in results.csv and results.json beside this page.</li>\n</ul>\n",
        results.rounds, results.seconds
    );
}

/// How many points are named for one reason; results.json names all.
const LABELS_MAX: usize = 12;

/// Groups the points by reason, because a lab that ran out of time would otherwise fill pages.
fn not_measured(html: &mut String, results: &Results) {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for outcome in results.outcomes() {
        if let Some(why) = reason(outcome) {
            reasons.entry(why).or_default().push(outcome.label());
        }
    }
    if reasons.is_empty() {
        return;
    }
    html.push_str("<h2>Not measured</h2>\n<ul>\n");
    for (why, labels) in reasons {
        let more = match labels.len().saturating_sub(LABELS_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let labels = escape(&labels[..labels.len().min(LABELS_MAX)].join("; ")) + &more;
        let _ = writeln!(html, "<li>{}: <span class=\"faint\">{labels}</span></li>", escape(&why));
    }
    html.push_str("</ul>\n");
}

fn reason(outcome: &Outcome) -> Option<String> {
    Some(match outcome.not_measured.as_ref()? {
        NotMeasured::Skipped(why) => format!("Skipped, because {why}"),
        NotMeasured::Failed(why) => format!("Failed: {why}"),
    })
}
