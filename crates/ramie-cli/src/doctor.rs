//! `ramie doctor`: reports the features of this machine and the likely cause of each refusal.

use std::fmt::Write;

use ramie_coro::{GUARD_BYTES, GuardKind};
use ramie_driver::{
    Check, Choice, Config, Driver, Feature, FeatureSet, Kind, Outcome, ProbeReport, Setting,
    Submitter, Topic, masked_from_env, probe_report, unknown_variables,
};
use serde_json::{Value, json};

use crate::{arguments::Doctor, failure::Failure, output, runtime, workload};

pub(crate) fn doctor(doctor: &Doctor) -> Result<(), Failure> {
    let wrong = runtime::check_environment().err();
    // Printed before the report, because the report is wrong until this is corrected.
    let code = wrong.as_ref().map(Failure::report_as_code);
    let report = as_asked(probe_report());
    let stacks = Stacks::found();
    if doctor.json {
        output::line(&as_json(&report, &stacks, wrong.as_ref()).to_string())?;
    } else {
        output::line(as_text(&report, &stacks).trim_end())?;
    }
    if let Some(code) = code {
        return Err(Failure::already_reported(code));
    }
    match report.driver {
        Some(_) => workload::room_for_fibers(),
        None => Err(Failure::other(format!("fibers cannot run here: {}", report.reason))),
    }
}

/// Maximum width of the list of ops.
const COLUMNS: usize = 90;

/// Applies `RAMIE_DRIVER` to the report: programs use that driver, otherwise the one that a trial
/// has selected.
fn as_asked(mut report: ProbeReport) -> ProbeReport {
    let choice = Choice::from_env();
    let opened = choice.and_then(|choice| match choice {
        Choice::Uring => Driver::open(choice, &Config::default()).map(|_| Some(Kind::Uring)),
        Choice::Poll => Ok(Some(Kind::Poll)),
        _ => Ok(None),
    });
    match opened {
        Ok(None) => {}
        Ok(Some(kind)) => {
            report.driver = Some(kind);
            if kind == Kind::Poll {
                report.features = FeatureSet::EMPTY;
            }
            "set by RAMIE_DRIVER".clone_into(&mut report.reason);
        }
        Err(error) => {
            report.driver = None;
            report.reason = error.to_string();
        }
    }
    report
}

/// The features that `RAMIE_CAPS` masks, if any.
fn masked() -> Option<String> {
    let masked = masked_from_env().ok().filter(|masked| *masked != FeatureSet::EMPTY)?;
    Some(masked.iter().map(Feature::name).collect::<Vec<_>>().join(", "))
}

/// The thread that submits a worker's ops and the reason for it, if `RAMIE_SUBMIT` is set.
fn submitter(report: &ProbeReport) -> Option<(&'static str, String)> {
    let asked = Submitter::from_env().ok().flatten()?;
    let refused = |check: &&Check| check.name == asked.name() && check.outcome != Outcome::Ok;
    let why_not = match report.driver {
        _ if asked == Submitter::Worker => None,
        Some(Kind::Uring) => report.checks.iter().find(refused).map(|check| check.detail.clone()),
        _ => Some("other submitters need io_uring".to_owned()),
    };
    Some(match why_not {
        None => (asked.name(), "set by RAMIE_SUBMIT".to_owned()),
        Some(why) => (
            Submitter::Worker.name(),
            format!("RAMIE_SUBMIT asks for {}, which is not available: {why}", asked.name()),
        ),
    })
}

/// The kind of guard below each stack, and the reason for that kind.
struct Stacks {
    guard: &'static str,
    cause: &'static str,
    errno: Option<i32>,
    cure: Option<&'static str>,
}

impl Stacks {
    fn found() -> Self {
        let guards = ramie_coro::guards();
        let (guard, cure) = match guards.kind() {
            GuardKind::Advice => ("guard regions", None),
            _ => (
                "mprotect",
                Some("Linux 6.13 or later; until then vm.max_map_count limits the live fibers"),
            ),
        };
        Stacks { guard, cause: guards.cause(), errno: guards.raw_os_error(), cure }
    }
}

fn as_text(report: &ProbeReport, stacks: &Stacks) -> String {
    let mut text = String::new();
    let driver = report.driver.map_or("none", |kind| kind.name());
    let mut add = |line: String| text.push_str(&(line + "\n"));
    add(format!("Linux {}, {} CPUs", report.kernel, report.cpus));
    add(format!("driver  {driver}: {}", report.reason));
    if let Some(unknown) = unknown_variables() {
        add(format!("warning {unknown}"));
    }
    if let Some(masked) = masked() {
        add(format!("caps    without {masked}: masked by RAMIE_CAPS"));
    }
    if let Some((submitter, why)) = submitter(report) {
        add(format!("submit  {submitter}: {why}"));
    }
    add(format!("guards  {}: {}", stacks.guard, stacks.cause));
    if let Some(cure) = stacks.cure {
        add(format!("        cure: {cure}"));
    }
    add(format!(
        "stacks  {} KiB usable above {} KiB of guard; RAMIE_STACK=BYTES sets the usable size",
        runtime::stack_bytes() / 1024,
        GUARD_BYTES / 1024
    ));
    if let Some(strands) = runtime::asked_strands() {
        add(format!("strands {strands}: set by RAMIE_STRANDS"));
    }
    add("\nTried".to_owned());
    for check in report.checks.iter().filter(|check| !is_working_op(check)) {
        add(check_lines(check));
    }
    add(ops_lines(report));
    if let Some(kind) = report.driver {
        add("\nFiles and processes".to_owned());
        for (calls, way) in ramie::fs::routes(kind == Kind::Uring, report.features) {
            add(format!("  {calls:<56}{way}"));
        }
    }
    add("\nLimits".to_owned());
    for setting in &report.settings {
        add(setting_line(setting));
    }
    text
}

/// Working ops are listed by name only, because there are many.
fn is_working_op(check: &Check) -> bool {
    check.topic == Topic::Op && check.outcome == Outcome::Ok
}

fn check_lines(check: &Check) -> String {
    let Check { name, outcome, detail, cause, cure, .. } = check;
    let mut lines = format!("  {:<8}{name}: {detail}", outcome.name());
    for (label, text) in [("likely cause", cause), ("cure", cure)] {
        if let Some(text) = text {
            let _ = write!(lines, "\n          {label}: {text}");
        }
    }
    lines
}

/// The working ops of io_uring, by the kernel's names.
fn ops_lines(report: &ProbeReport) -> String {
    let names: Vec<_> =
        report.checks.iter().filter(|check| is_working_op(check)).map(|check| check.name).collect();
    if names.is_empty() {
        return "  no io_uring ops, because there is no ring".to_owned();
    }
    let mut lines = vec![format!("  {:<8}{} io_uring ops:", Outcome::Ok.name(), names.len())];
    for name in names {
        let line = lines.last_mut().expect("the list starts with one line");
        if line.len() + 1 + name.len() > COLUMNS {
            lines.push(format!("          {name}"));
        } else {
            *line += &format!(" {name}");
        }
    }
    lines.join("\n")
}

fn setting_line(setting: &Setting) -> String {
    let Setting { name, unit, value, hard } = setting;
    let value = value.map_or_else(|| "unlimited or unknown".to_owned(), |value| value.to_string());
    let hard = hard.map(|hard| format!(" (can be raised to {hard})")).unwrap_or_default();
    format!("  {name:<26}{value} {unit}{hard}")
}

fn as_json(report: &ProbeReport, stacks: &Stacks, wrong: Option<&Failure>) -> Value {
    let check = |check: &Check| {
        let topic = match check.topic {
            Topic::Driver => "driver",
            Topic::Feature => "feature",
            Topic::Op => "op",
        };
        json!({
            "topic": topic,
            "name": check.name,
            "outcome": check.outcome.name(),
            "detail": check.detail,
            "cause": check.cause,
            "cure": check.cure,
        })
    };
    let setting = |setting: &Setting| {
        json!({
            "name": setting.name,
            "unit": setting.unit,
            "value": setting.value,
            "hard": setting.hard,
        })
    };
    let files = report.driver.map(|kind| {
        let calls = ramie::fs::routes(kind == Kind::Uring, report.features);
        calls.map(|(calls, way)| json!({ "calls": calls, "way": way })).to_vec()
    });
    json!({
        "wrong": wrong.map(Failure::to_string),
        "warning": unknown_variables(),
        "kernel": report.kernel,
        "cpus": report.cpus,
        "driver": report.driver.map(|kind| kind.name()),
        "reason": report.reason,
        "masked": masked(),
        "submitter": submitter(report).map_or(Submitter::Worker.name(), |(submitter, _)| submitter),
        "guards": {
            "kind": stacks.guard,
            "cause": stacks.cause,
            "errno": stacks.errno,
            "cure": stacks.cure,
        },
        "stack_bytes": runtime::stack_bytes(),
        "guard_bytes": GUARD_BYTES,
        "files": files,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "limits": report.settings.iter().map(setting).collect::<Vec<_>>(),
    })
}
