//! `ramie lab`: measures a grid of points within about two minutes and writes a report.
//!
//! Rooms in the order of their use: [`plan`] (the experiments, as data, and their time),
//! [`measure`] (rounds over all points, each in a child process), [`results`] (the raw record and
//! its files), [`report`] (sentences, charts and the page, all computed from the record).
//! [`compare`] compares two records. [`figure`] formats numbers for all of them.

mod compare;
pub(crate) mod figure;
mod measure;
mod plan;
mod report;
mod results;

use std::path::{Path, PathBuf};

use jiff::Zoned;

pub(crate) use self::plan::Preset;
use self::{
    measure::Session,
    plan::{Planned, Selection, peer::Peers},
    report::{conclusion, finding, page},
    results::{
        NotMeasured, Outcome, Quiet, Request, Results, Subject, csv, folder,
        journal::{Header, Journal},
        machine::Machine,
        record,
    },
};
use crate::{
    arguments::{Lab, LabCommand},
    failure::Failure,
    interrupt::Interrupt,
    output, runtime,
};

pub(crate) fn lab(lab: &Lab) -> Result<(), Failure> {
    if let Some(LabCommand::Compare(arguments)) = &lab.command {
        let measures = lab.out.is_some() || lab.resume.is_some() || asked(lab)?.is_some();
        if measures {
            return Err(Failure::usage(
                "the flags of `ramie lab` do not apply to compare, because it measures nothing; \
                 omit those before `compare`",
            ));
        }
        return compare::compare(arguments);
    }
    runtime::check_environment()?;
    let interrupt = Interrupt::watch()?;
    let now = Zoned::now();
    let Begun { folder, selection, plan, results, journal } = match &lab.resume {
        Some(folder) => resume(folder, lab, &now)?,
        None => begin(lab, &now)?,
    };
    // A journal without an end is that of a lab that was cut off.
    if !results.is_partial {
        output::warn(&format!(
            "{} is a finished lab, so nothing is measured; its report is written again from its \
             readings",
            folder.display()
        ));
        return report(&folder, &results, journal);
    }
    let session = Session::new(selection, &plan, &interrupt, results, journal);
    let (results, journal) = session.run();
    report(&folder, &results, journal)
}

/// A lab whose folder is claimed.
struct Begun {
    folder: PathBuf,
    selection: Selection,
    plan: Vec<Planned>,
    results: Results,
    journal: Journal,
}

/// The selection that the flags ask for, if they ask for any.
fn asked(lab: &Lab) -> Result<Option<Selection>, Failure> {
    let tiny = lab.tiny.then_some(Selection::Tiny);
    let sample = lab.sample.then_some(Selection::Sample);
    let full = lab.full.then_some(Selection::Full);
    let preset = lab.preset.map(Selection::Preset);
    let all: Vec<_> = [tiny, sample, full, preset].into_iter().flatten().collect();
    match all[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [one, other, ..] => Err(Failure::usage(format!(
            "{} and {} exclude each other, because each selects the experiments; omit one of them",
            one.flags(),
            other.flags()
        ))),
    }
}

fn begin(lab: &Lab, now: &Zoned) -> Result<Begun, Failure> {
    let selection = asked(lab)?.unwrap_or(Selection::Quick);
    let mut plan = selection.experiments();
    let wants_peers = lab.peers || lab.peers_dir.is_some();
    let peers = wants_peers.then(|| Peers::find(lab.peers_dir.as_deref())).transpose()?;
    peers.iter().for_each(|peers| peers.add_to(&mut plan));
    let by_date = || Path::new("ramie-lab").join(now.strftime("%Y-%m-%d").to_string());
    let (folder, mut journal) = folder::claim(&lab.out.clone().unwrap_or_else(by_date))?;
    let mut header = header(Machine::found(now), selection, &plan);
    header.request.peers = peers;
    if let Err(error) = journal.begin(&header) {
        // Better now than after the measuring, because nothing could be kept.
        discard(&folder, journal);
        return Err(Failure::other(format!(
            "cannot write into {} ({error}); free some disk space, or name another folder with \
             --out",
            folder.display()
        )));
    }
    Ok(Begun { folder, selection, plan, results: header.results(), journal })
}

/// Reads the journal of an earlier lab. Fails if this one would measure something else.
fn resume(folder: &Path, lab: &Lab, now: &Zoned) -> Result<Begun, Failure> {
    let refuse = |why: &str| {
        Failure::usage(format!(
            "cannot resume {}: {why}; start a new lab with --out",
            folder.display()
        ))
    };
    if lab.out.is_some() {
        return Err(Failure::usage(
            "--out does not apply to --resume, because the report stays in its folder; omit it",
        ));
    }
    let (journal, recorded, events) = Journal::reopen(folder)?;
    let name = &recorded.request.selection;
    let Some(selection) = Selection::of_name(name) else {
        return Err(refuse(&format!("this version of ramie does not know its plan `{name}`")));
    };
    if let Some(asked) = asked(lab)?
        && asked != selection
    {
        return Err(Failure::usage(format!(
            "cannot resume {}: it was started with {}; omit {}",
            folder.display(),
            selection.flags(),
            asked.flags()
        )));
    }
    let peers = recorded.request.peers.clone();
    if peers.is_none() && (lab.peers || lab.peers_dir.is_some()) {
        return Err(refuse("it was started without --peers"));
    }
    let mut plan = selection.experiments();
    peers.iter().for_each(|peers| peers.add_to(&mut plan));
    let mut present = header(Machine::found(now), selection, &plan);
    present.request.peers = peers;
    if let Some(why) = recorded.difference(&present) {
        return Err(refuse(&why));
    }
    let mut results = recorded.results();
    for event in events {
        results.apply(event).map_err(|why| refuse(&format!("its journal names {why}")))?;
    }
    Ok(Begun { folder: folder.to_owned(), selection, plan, results, journal })
}

fn header(machine: Machine, selection: Selection, plan: &[Planned]) -> Header {
    let plan = plan.iter().map(|Planned { experiment, points }| {
        let subjects = points.iter().map(|point| Subject::new(&experiment.name, point)).collect();
        (experiment.clone(), subjects)
    });
    Header::new(machine, Request::new(selection), selection.posts(), plan)
}

/// Writes the report and prints its summary.
fn report(folder: &Path, results: &Results, journal: Journal) -> Result<(), Failure> {
    if results.outcomes().all(|outcome| outcome.counted().next().is_none()) {
        // There is nothing to report, so the directory is removed again.
        discard(folder, journal);
        return Err(Failure::other(nothing_measured(results)));
    }
    let written = write(folder, results);
    // Printed before the error of a failed write, because the figures would otherwise be lost.
    print_summary(results)?;
    let partial = if results.is_partial { " (partial: it was interrupted)" } else { "" };
    let written = written.map_err(|why| {
        Failure::other(format!("{why}; {}", remedy_for_an_unwritten_report(folder, &journal)))
    });
    output::line(&format!("report: {}{partial}", written?.display()))
}

/// Removes the folder of a lab without readings.
fn discard(folder: &Path, journal: Journal) {
    journal.remove();
    let _ = std::fs::remove_dir(folder);
}

/// Which readings are kept though the report could not be written, and what to do.
fn remedy_for_an_unwritten_report(folder: &Path, journal: &Journal) -> String {
    let resume = format!("free some disk space, then `ramie lab --resume {}`", folder.display());
    match journal.unwritten_lines() {
        _ if !journal.is_there() => {
            "its folder is gone, so only the figures above are left; run the lab again".to_owned()
        }
        0 => format!("all readings are kept: {resume} writes the report"),
        _ => format!("some of the last readings are lost: {resume} measures them again"),
    }
}

fn nothing_measured(results: &Results) -> String {
    let failed = results.outcomes().find_map(|outcome| match &outcome.not_measured {
        Some(NotMeasured::Failed(why)) => Some(why.clone()),
        _ => None,
    });
    match failed {
        Some(why) => format!("could not measure anything: {why}"),
        None => {
            "ended before anything was measured, so there is no report; run it again".to_owned()
        }
    }
}

/// Writes all files that there is space for; the error is that of the first that does not fit.
fn write(folder: &Path, results: &Results) -> Result<PathBuf, String> {
    let table = folder::write(folder, "results.csv", &csv::table(results));
    let json = record::to_json(results, finding::all(results));
    let record = folder::write(folder, record::FILE, &json);
    let page = page::page(results).map_err(|failure| failure.to_string())?;
    let page = folder::write(folder, "report.html", &page);
    table.and(record).and(page)
}

fn print_summary(results: &Results) -> Result<(), Failure> {
    if let Some(quiet) = Quiet::of(results) {
        output::line(&quiet.sentence)?;
    }
    for finding in finding::headlines(results).into_iter().chain(conclusion::all(results)) {
        output::line(&finding)?;
    }
    for outcome in results.outcomes() {
        if let Some(NotMeasured::Failed(why)) = &outcome.not_measured {
            output::warn(&format!("{} failed: {why}", outcome.subject.label()));
        }
    }
    let is_skipped = |of: &&Outcome| matches!(of.not_measured, Some(NotMeasured::Skipped(_)));
    let skipped = results.outcomes().filter(is_skipped).count();
    if skipped > 0 {
        let all = results.outcomes().count();
        output::warn(&format!(
            "{skipped} of {all} points were skipped; the end of the report says why"
        ));
    }
    for warning in results.warnings() {
        output::warn(&warning);
    }
    Ok(())
}
