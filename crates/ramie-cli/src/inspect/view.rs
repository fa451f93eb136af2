//! The rows that the page and `ramie top` show, made of an answer and the one before it.

use ramie_driver::visible;
use serde::Serialize;

use super::answer::{
    AnsweredStrand, AnsweredWorker, Location, States, SummaryAnswer, Target, Wait,
};

/// A process at one moment. Its texts have no control characters.
#[derive(Serialize, Debug, Clone, Default)]
pub(crate) struct ProcessView {
    pub(crate) process: u32,
    /// The time since the view before, in ms; none for the first view.
    pub(crate) interval_ms: Option<u64>,
    pub(crate) workers: Vec<WorkerRow>,
    pub(crate) states: States,
    pub(crate) rates: Option<EventRates>,
    pub(crate) places: Vec<PlaceRow>,
    pub(crate) waiting_elsewhere: u64,
    pub(crate) slowest: Vec<WaitRow>,
    pub(crate) stalls: Vec<StallRow>,
    pub(crate) took_ms: u64,
}

#[derive(Serialize, Debug, Clone, Default)]
pub(crate) struct WorkerRow {
    /// `worker 0`, or `thread 4711`.
    pub(crate) label: String,
    pub(crate) thread: String,
    /// The share of the interval in which it ran on a CPU, from 0 to 1.
    pub(crate) load: Option<f64>,
    pub(crate) run_queue: Option<u64>,
    pub(crate) runnable: u64,
    pub(crate) waiting: u64,
    pub(crate) fibers: u64,
    /// Why its strands are not counted; empty if they are.
    pub(crate) problem: String,
}

/// Events per second.
#[derive(Serialize, Debug, Clone, Copy)]
pub(crate) struct EventRates {
    pub(crate) spawned: f64,
    pub(crate) ended: f64,
    pub(crate) switches: f64,
}

#[derive(Serialize, Debug, Clone, Default)]
pub(crate) struct PlaceRow {
    pub(crate) purpose: String,
    pub(crate) place: String,
    pub(crate) strands: u64,
    pub(crate) longest_ms: u64,
}

#[derive(Serialize, Debug, Clone, Default)]
pub(crate) struct WaitRow {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The purpose, with the object's name.
    pub(crate) wait: String,
    pub(crate) place: String,
    pub(crate) since_ms: u64,
    pub(crate) left_ms: Option<u64>,
    pub(crate) worker: String,
}

#[derive(Serialize, Debug, Clone, Default)]
pub(crate) struct StallRow {
    pub(crate) fiber: String,
    pub(crate) worker: usize,
    pub(crate) ago_ms: u64,
    pub(crate) lasted_ms: u64,
    pub(crate) has_ended: bool,
    pub(crate) cause: String,
}

impl ProcessView {
    pub(super) fn of(answer: &SummaryAnswer, before: Option<&SummaryAnswer>) -> ProcessView {
        let before = before.filter(|before| before.at_us < answer.at_us);
        let interval_us = before.map(|before| answer.at_us - before.at_us);
        let worker = |worker: &AnsweredWorker| {
            let load = before.and_then(|before| load(worker, before, interval_us?));
            worker_row(worker, load)
        };
        let place = |place: &super::answer::AnsweredPlace| PlaceRow {
            purpose: visible(&place.purpose),
            place: place_of(&place.location),
            strands: place.strands,
            longest_ms: place.longest_ms,
        };
        let stall = |stall: &super::answer::AnsweredStall| StallRow {
            fiber: visible(&stall.fiber),
            worker: stall.worker,
            ago_ms: stall.ago_ms,
            lasted_ms: stall.lasted_ms,
            has_ended: stall.has_ended,
            cause: visible(&stall.cause),
        };
        ProcessView {
            process: answer.process,
            interval_ms: interval_us.map(|us| us / 1000),
            workers: answer.workers.iter().map(worker).collect(),
            states: answer.states,
            rates: before.map(|before| rates(answer, before)),
            places: answer.places.iter().map(place).collect(),
            waiting_elsewhere: answer.waiting_elsewhere,
            slowest: answer.slowest.iter().filter_map(|strand| wait_row(strand, answer)).collect(),
            stalls: answer.stalls.iter().map(stall).collect(),
            took_ms: answer.took_ms,
        }
    }
}

fn load(worker: &AnsweredWorker, before: &SummaryAnswer, interval_us: u64) -> Option<f64> {
    let earlier = before.workers.iter().find(|other| other.thread_id == worker.thread_id)?;
    let used_us = worker.cpu_us?.checked_sub(earlier.cpu_us?)?;
    // The two clocks are not read at the same moment.
    Some((used_us as f64 / interval_us as f64).min(1.0))
}

fn rates(answer: &SummaryAnswer, before: &SummaryAnswer) -> EventRates {
    let seconds = (answer.at_us - before.at_us) as f64 / 1e6;
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    EventRates {
        spawned: rate(answer.spawned, before.spawned),
        ended: rate(answer.ended, before.ended),
        switches: rate(answer.resumed, before.resumed),
    }
}

fn label_of(worker: &AnsweredWorker) -> String {
    match worker.index {
        Some(index) => format!("worker {index}"),
        None => format!("thread {}", worker.thread_id),
    }
}

fn worker_row(worker: &AnsweredWorker, load: Option<f64>) -> WorkerRow {
    let problem = match &worker.status[..] {
        "complete" => "",
        "outside_loop" => "runs code outside of waits",
        "silent" => "has not answered: a fiber may keep it",
        _ => "unknown state",
    };
    WorkerRow {
        label: label_of(worker),
        thread: visible(worker.thread_name.as_deref().unwrap_or("unnamed")),
        load,
        run_queue: worker.run_queue,
        runnable: worker.runnable,
        waiting: worker.waiting,
        fibers: worker.fibers,
        problem: problem.to_owned(),
    }
}

fn wait_row(strand: &AnsweredStrand, answer: &SummaryAnswer) -> Option<WaitRow> {
    let wait = strand.wait.as_ref()?;
    let worker = strand.worker.and_then(|place| answer.workers.get(place));
    Some(WaitRow {
        id: visible(&strand.id),
        name: visible(strand.name.as_deref().unwrap_or_default()),
        wait: visible(&text_of(wait, answer)),
        place: place_of(&wait.location),
        since_ms: wait.since_ms,
        left_ms: wait.left_ms,
        worker: worker.map(label_of).unwrap_or_default(),
    })
}

/// The purpose of a wait, with the object's name.
fn text_of(wait: &Wait, answer: &SummaryAnswer) -> String {
    let purpose = &wait.purpose;
    let strand = |id: &String| {
        let slowest = answer.slowest.iter().find(|strand| strand.id == *id);
        let awaited = || answer.awaited.iter().find(|strand| strand.id == *id);
        let name = slowest.and_then(|strand| strand.name.as_ref());
        match name.or_else(|| Some(&awaited()?.name)) {
            Some(name) => format!("'{name}' ({id})"),
            None => format!("strand {id}"),
        }
    };
    match &wait.target {
        Target::None => purpose.clone(),
        Target::Descriptor { fd, name: Some(name) } => format!("{purpose} (fd {fd}: {name})"),
        Target::Descriptor { fd, name: None } => format!("{purpose} (fd {fd}, closed)"),
        Target::Mutex { owner: Some(owner), .. } => {
            format!("{purpose}, held by {}", strand(owner))
        }
        Target::RwLock { writer: Some(writer), .. } => {
            format!("{purpose}, held by {} to write", strand(writer))
        }
        Target::RwLock { readers, .. } if *readers > 0 => {
            let plural = if *readers == 1 { "" } else { "s" };
            format!("{purpose}, held by {readers} reader{plural}")
        }
        Target::Mutex { address, .. }
        | Target::RwLock { address, .. }
        | Target::Channel { address }
        | Target::Object { address }
        | Target::Scope { address } => format!("{purpose} ({address:#x})"),
        Target::Select { arms } => format!("{purpose} ({arms} arms)"),
        Target::Strand { id } => format!("{purpose}: {}", strand(id)),
    }
}

fn place_of(location: &Location) -> String {
    visible(&format!("{}:{}", location.file, location.line))
}

/// A text that does not control a terminal. Names are chosen by the program that is inspected,
/// which may have taken them from a request.
pub(crate) fn visible(text: &str) -> String {
    visible::line(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn worker(cpu_us: u64) -> Value {
        json!({
            "index": 0, "thread_name": "main", "thread_id": 7, "status": "complete", "fibers": 3,
            "runnable": 1, "waiting": 2, "run_queue": 1, "cpu_us": cpu_us, "of_the_future": 1,
        })
    }

    fn answer(at_us: u64, workers: Vec<Value>, targets: &[Value]) -> SummaryAnswer {
        let strand = |(index, target): (usize, &Value)| {
            json!({
                "id": format!("{index}.1"), "name": format!("name\u{1b} {index}"), "worker": 0,
                "wait": {
                    "purpose": "a thing", "target": target, "since_ms": 5, "left_ms": null,
                    "location": { "file": "src/main.rs", "line": 3, "column": 4 },
                },
            })
        };
        let slowest: Vec<_> = targets.iter().enumerate().map(strand).collect();
        let json = json!({
            "process": 4711, "at_us": at_us, "workers": workers, "waiting_elsewhere": 0,
            "states": { "not_started": 0, "running": 1, "runnable": 1, "waiting": 2 },
            "places": [], "slowest": slowest, "stalls": [],
            "awaited": [{ "id": "98.1", "name": "holder\u{1b}" }],
            "spawned": at_us / 1000, "ended": 0, "resumed": at_us / 10, "took_ms": 1,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn loads_and_rates_are_those_of_the_interval() {
        let first = answer(1_000_000, vec![worker(500_000)], &[]);
        let view = ProcessView::of(&first, None);
        assert!(view.workers[0].load.is_none() && view.rates.is_none());
        let second = answer(3_000_000, vec![worker(1_000_000)], &[]);
        let view = ProcessView::of(&second, Some(&first));
        assert_eq!((view.interval_ms, view.workers[0].load), (Some(2000), Some(0.25)));
        let rates = view.rates.unwrap();
        assert_eq!((rates.spawned, rates.ended, rates.switches), (1000.0, 0.0, 100_000.0));
        // A process whose clock has not moved.
        assert!(ProcessView::of(&first, Some(&first)).rates.is_none());
    }

    #[test]
    fn the_objects_of_waits_are_named() {
        let targets = [
            json!({ "kind": "none" }),
            json!({ "kind": "descriptor", "fd": 3, "offset": null, "name": "/tmp/x" }),
            json!({ "kind": "mutex", "address": 16, "owner": "0.1" }),
            json!({ "kind": "rw_lock", "address": 16, "writer": null, "readers": 2 }),
            json!({ "kind": "channel", "address": 255 }),
            json!({ "kind": "select", "arms": 4 }),
            json!({ "kind": "strand", "id": "99.1" }),
            json!({ "kind": "strand", "id": "98.1" }),
            json!({ "kind": "of the future", "depth": 1 }),
        ];
        let view = ProcessView::of(&answer(1, vec![worker(0)], &targets), None);
        let texts: Vec<_> = view.slowest.iter().map(|row| &row.wait[..]).collect();
        let expected = [
            "a thing",
            "a thing (fd 3: /tmp/x)",
            "a thing, held by 'name\\u{1b} 0' (0.1)",
            "a thing, held by 2 readers",
            "a thing (0xff)",
            "a thing (4 arms)",
            "a thing: strand 99.1",
            "a thing: 'holder\\u{1b}' (98.1)",
            "a thing",
        ];
        assert_eq!(texts, expected);
        let row = &view.slowest[1];
        assert_eq!((&row.name[..], &row.worker[..]), ("name\\u{1b} 1", "worker 0"));
        assert_eq!(row.place, "src/main.rs:3");
    }
}
