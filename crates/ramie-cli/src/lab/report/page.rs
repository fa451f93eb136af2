//! The report: one page without external files, for the screen, dark mode and the printer.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    chart, counters,
    finding::{self, Lead},
    posts, raw,
};
use crate::{
    failure::Failure,
    lab::{
        figure::{amount, counted, factor, thousands},
        plan::View,
        results::{Finished, NotMeasured, Outcome, Quiet, Results, Series},
    },
    summary::Summary,
};

pub(crate) const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(crate) fn page(results: &Results) -> Result<String, Failure> {
    let mut html = String::new();
    head(&mut html);
    opening(&mut html, results);
    tiles(&mut html, results);
    machine(&mut html, results);
    posts::conclusions(&mut html, results);
    feeding(&mut html, results)?;
    for finished in &results.finished {
        if !is_feed(finished) {
            section(&mut html, finished)?;
        }
    }
    where_threads_win(&mut html, results);
    method(&mut html, results);
    not_measured(&mut html, results);
    let _ = write!(html, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
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

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn paragraph(html: &mut String, class: &str, text: &str) {
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
         Lower is better in every figure but requests/s.",
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
    if let Some(quiet) = Quiet::of(results) {
        let class = if quiet.is_quiet { "faint" } else { "notice" };
        paragraph(html, class, &(quiet.sentence + "."));
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
            tile(html, finished, view);
        }
    }
    html.push_str("</div>\n");
}

fn tile(html: &mut String, finished: &Finished, view: &View) {
    let series = finished.series(view.quantity);
    let [first, rival, ..] = finished.arms()[..] else { return };
    let (Some(fibers), Some(others)) = (series.get(&first), series.get(&rival)) else { return };
    let Some(x) =
        finding::comparisons(view.quantity, fibers, others).last().map(|comparison| comparison.x)
    else {
        return;
    };
    let _ = write!(
        html,
        "<div class=\"tile\"><div class=\"what\">{}<br>{}</div><div class=\"pair\">",
        escape(&view.title),
        escape(&counted(x, &finished.experiment.x_noun))
    );
    for (arm, series) in [(first, fibers), (rival, others)] {
        let Some((_, summary)) = series.iter().find(|(other, _)| *other == x) else { continue };
        let _ = write!(
            html,
            "<div class=\"on-{}\"><b>{}</b><span class=\"of\">{}</span></div>",
            arm.on.name(),
            amount(view.quantity, summary.median),
            arm.name()
        );
    }
    html.push_str("</div></div>\n");
}

fn machine(html: &mut String, results: &Results) {
    html.push_str("<dl>\n");
    for (name, value) in results.machine.rows() {
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    html.push_str("</dl>\n");
}

fn feeding(html: &mut String, results: &Results) -> Result<(), Failure> {
    let feeds: Vec<_> = results.finished.iter().filter(|finished| is_feed(finished)).collect();
    let Some(first) = feeds.first() else { return Ok(()) };
    html.push_str("<h2>Feeding people</h2>\n");
    paragraph(html, "", &first.experiment.about);
    leads(html, &feeds);
    html.push_str("<div class=\"charts\">\n");
    for finished in &feeds {
        for view in &finished.experiment.views {
            figure(html, finished, view, &finished.experiment.title)?;
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
    paragraph(html, "", &experiment.about);
    html.push_str("<div class=\"charts\">\n");
    for view in &experiment.views {
        figure(html, finished, view, "")?;
    }
    html.push_str("</div>\n");
    posts::figures(html, finished);
    table(html, finished);
    Ok(())
}

/// A chart and its finding; only the finding if there is one x. An empty title means the view's.
fn figure(html: &mut String, finished: &Finished, view: &View, title: &str) -> Result<(), Failure> {
    let finding = escape(&finding::of_view(finished, view));
    let Some(svg) = chart::chart(finished, view)? else {
        let _ = writeln!(html, "<p>{finding}</p>");
        return Ok(());
    };
    let title = escape(if title.is_empty() { &view.title } else { title });
    let label = format!(
        "<svg role=\"img\" tabindex=\"0\" aria-label=\"{title}. The arrow keys walk along its \
         points; the table of all figures follows.\" "
    );
    let svg = svg.replacen("<svg ", &label, 1);
    let _ = writeln!(
        html,
        "<figure data-name=\"{}-{}\"><h3>{title}</h3>\n{svg}\n\
         <p class=\"said\" aria-live=\"polite\"></p><figcaption>{finding}</figcaption></figure>",
        finished.experiment.name,
        view.quantity.name()
    );
    Ok(())
}

/// A table of all figures of an experiment.
fn table(html: &mut String, finished: &Finished) {
    let experiment = &finished.experiment;
    let _ = write!(
        html,
        "<details><summary>{}: all figures</summary><div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">{}</th>",
        escape(&experiment.title),
        experiment.x_noun
    );
    let arms = finished.arms();
    for view in &experiment.views {
        for arm in &arms {
            let title = escape(&view.title_inside());
            let _ = write!(html, "<th scope=\"col\">{title}, {}</th>", arm.name());
        }
    }
    html.push_str("</tr></thead>\n");
    let mut xs: Vec<_> = finished.outcomes.iter().map(|outcome| outcome.subject.x).collect();
    xs.dedup();
    for x in xs {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", thousands(x));
        for view in &experiment.views {
            let series = finished.series(view.quantity);
            for arm in &arms {
                let found = series.get(arm).and_then(|series| at(series, x));
                let figure = found.map(|summary| {
                    let text = amount(view.quantity, summary.median);
                    raw::linked(&text, &experiment.name, *arm, x)
                });
                let _ = write!(html, "<td>{}</td>", figure.as_deref().unwrap_or("–"));
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div></details>\n");
    counters::table(html, finished);
    raw::table(html, finished);
}

fn at(series: &Series, x: u64) -> Option<Summary> {
    series.iter().find(|(other, _)| *other == x).map(|(_, summary)| *summary)
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
         start of the runtime; for http by the load generator, from the first request to the last \
         answer; for server from the start of the first client to the end of the last connection. \
         Each run checks its own result.</li>\n\
         <li>Every point ran in its own processes, in up to {} over the whole grid within \
         {:.0} s; short points three times in a process. Points that did not fit into the time \
         have fewer rounds.</li>\n\
         <li>Before the first round most arms of each experiment ran once to warm up; no figure \
         uses that. An arm whose strands share one thread was pinned to one CPU, except \
         where a second process takes part: in http, in server, and in mix on sockets and pipes. \
         All others could use every CPU.</li>\n\
         <li>Counters are those of one more run of each arm after the first round, at one x; no \
         figure uses its time.</li>\n\
         <li>Figures are medians; the thin bars in the charts reach from the lowest to the highest \
         reading.</li>\n\
         <li>Each figure of a table leads to its readings. Every reading is in results.csv and \
         results.json beside this page, too.</li>\n</ul>\n",
        counted(results.rounds.into(), "rounds"),
        results.seconds
    );
}

/// How many points are named for one reason; results.json names all.
const LABELS_MAX: usize = 12;

/// Groups the points by reason, because a lab that ran out of time would otherwise fill pages.
fn not_measured(html: &mut String, results: &Results) {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for outcome in results.outcomes() {
        if let Some(why) = reason(outcome) {
            reasons.entry(why).or_default().push(outcome.subject.label());
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
