//! The plan of a lab, as data: experiments, their points and arms, and the views of the report.

pub(crate) mod budget;
mod draft;
pub(crate) mod peer;
pub(crate) mod post;
mod presets;
mod quick;

use serde::{Deserialize, Serialize};

pub(crate) use self::presets::Preset;
use self::{
    peer::Peer,
    post::{Post, Published},
};
use crate::workload::{Engine, Workload};

/// A family of points that share a section of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Experiment {
    /// The name in the files, such as `feed-1000`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// A description for the report, in one to three sentences.
    pub(crate) about: String,
    /// The unit of [`Point::x`].
    pub(crate) x_noun: String,
    pub(crate) views: Vec<View>,
    /// Figures of a post, to stand beside those of this machine.
    pub(crate) published: Vec<Published>,
}

/// An experiment with its points, in the order in which a round measures them.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) experiment: Experiment,
    pub(crate) points: Vec<Point>,
}

/// One workload with its parameters, on one arm.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) workload: Workload,
    pub(crate) arm: Arm,
    pub(crate) x: u64,
}

impl Point {
    /// The arguments of `ramie` that measure this point `repeat` times.
    pub(crate) fn arguments(&self, repeat: u32) -> Vec<String> {
        let mut all = vec!["run".to_owned()];
        all.extend(self.workload.arguments());
        all.extend(self.arm.flags());
        all.extend(["--repeat".to_owned(), repeat.to_string(), "--json".to_owned()]);
        all
    }

    /// Whether its process can be pinned to one CPU. The clients of a server inherit the CPUs of
    /// the server, and need one of their own.
    pub(crate) fn uses_one_cpu(&self) -> bool {
        self.arm.uses_one_cpu() && !self.workload.has_other_processes()
    }
}

/// The program that runs a workload: this one, on an engine, or a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum On {
    Engine(Engine),
    Peer(Peer),
}

impl On {
    /// The name in files and charts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            On::Engine(engine) => engine.name(),
            On::Peer(peer) => peer.name(),
        }
    }

    fn one(self) -> &'static str {
        match self {
            On::Engine(engine) => engine.one(),
            On::Peer(peer) => peer.one(),
        }
    }

    fn all(self) -> &'static str {
        match self {
            On::Engine(engine) => engine.all(),
            On::Peer(peer) => peer.all(),
        }
    }

    /// The engine itself, or the one whose costs are roughly those of the peer.
    pub(crate) fn model(self) -> Engine {
        match self {
            On::Engine(engine) => engine,
            On::Peer(peer) => peer.model(),
        }
    }
}

/// The engine and the workers that run a workload, or a peer: one line of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Arm {
    pub(crate) on: On,
    /// The number of workers, or of processes, if the experiment sets it; of threads, if a peer has
    /// several.
    #[serde(default)]
    pub(crate) workers: Option<u32>,
}

impl Arm {
    pub(crate) const fn of(on: Engine) -> Self {
        Arm { on: On::Engine(on), workers: None }
    }

    pub(crate) const fn of_peer(peer: Peer) -> Self {
        Arm { on: On::Peer(peer), workers: None }
    }

    /// The flags of `ramie run` that select it.
    pub(crate) fn flags(self) -> Vec<String> {
        let mut flags = vec!["--on".to_owned(), self.on.name().to_owned()];
        if let Some(count) = self.workers {
            let flag =
                if self.on == On::Engine(Engine::Processes) { "--processes" } else { "--workers" };
            flags.extend([flag.to_owned(), count.to_string()]);
        }
        flags
    }

    /// The name in charts and tables.
    pub(crate) fn name(self) -> String {
        self.with_workers(self.on.name(), "×", "")
    }

    /// The noun for one strand or task.
    pub(crate) fn one(self) -> String {
        self.in_words(self.on.one())
    }

    /// The noun for all of them, as the subject or the object of a sentence.
    pub(crate) fn all(self) -> String {
        self.in_words(self.on.all())
    }

    fn in_words(self, noun: &str) -> String {
        match self.on {
            On::Engine(_) => self.with_workers(noun, "of ", " workers"),
            On::Peer(_) => self.with_workers(noun, "on ", " threads"),
        }
    }

    fn with_workers(self, noun: &str, before: &str, behind: &str) -> String {
        match self.workers {
            Some(workers) if workers > 1 => format!("{noun} {before}{workers}{behind}"),
            _ => noun.to_owned(),
        }
    }

    /// Whether all its strands run on one thread, so that its process can be pinned to one CPU.
    fn uses_one_cpu(self) -> bool {
        match self.on {
            On::Engine(Engine::Fibers) => self.workers.is_none_or(|workers| workers == 1),
            On::Engine(Engine::Coroutines | Engine::Futures) => true,
            On::Engine(_) => false,
            // The JVM compiles and collects garbage on threads of its own.
            On::Peer(peer) => !peer.is_java() && self.workers.is_none(),
        }
    }
}

/// One view of an experiment: a quantity over x.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    pub(crate) title: String,
    pub(crate) quantity: Quantity,
}

impl View {
    pub(crate) fn new(title: &str, quantity: Quantity) -> Self {
        View { title: title.to_owned(), quantity }
    }

    /// The title inside a sentence: without a capital, unless it begins with an abbreviation.
    pub(crate) fn title_inside(&self) -> String {
        let mut rest = self.title.chars();
        match rest.next() {
            Some(first) if !rest.as_str().starts_with(char::is_uppercase) => {
                first.to_lowercase().chain(rest).collect()
            }
            _ => self.title.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quantity {
    /// The whole run, in seconds.
    Seconds,
    /// One op, in nanoseconds.
    PerOp,
    /// One op, in nanoseconds of all CPUs together.
    Cpu,
    /// Resident memory and page tables of one strand, in bytes.
    Memory,
    /// Requests a second. The only quantity of which more is better.
    Requests,
    /// The mean latency of a request, in seconds.
    Latency,
    /// The mean time that an accept of a server takes, in nanoseconds.
    Accept,
    /// The longest accept of a server, in nanoseconds.
    LongestAccept,
}

impl Quantity {
    /// The name in a file's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Quantity::Seconds => "seconds",
            Quantity::PerOp => "per-op",
            Quantity::Cpu => "cpu",
            Quantity::Memory => "memory",
            Quantity::Requests => "requests",
            Quantity::Latency => "latency",
            Quantity::Accept => "accept",
            Quantity::LongestAccept => "longest-accept",
        }
    }

    /// Whether a higher figure is better.
    pub(crate) fn prefers_more(self) -> bool {
        self == Quantity::Requests
    }

    /// By which factor the first figure is better than the second; below 1 it is worse.
    pub(crate) fn advantage(self, first: f64, second: f64) -> f64 {
        if self.prefers_more() { first / second } else { second / first }
    }

    /// The noun in a comparison.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Quantity::Seconds | Quantity::PerOp => "time",
            Quantity::Accept | Quantity::LongestAccept => "accept wait",
            Quantity::Cpu => "CPU time",
            Quantity::Memory => "memory",
            Quantity::Requests => "requests/s",
            Quantity::Latency => "latency",
        }
    }
}

/// Which experiments are measured, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The grid that takes two minutes.
    Quick,
    /// A few small points of each experiment, for tests of the report.
    Tiny,
    /// Those of four experiments, for other tests.
    Sample,
    /// The quick grid and all presets.
    Full,
    Preset(Preset),
}

impl Selection {
    /// The name in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Selection::Quick => "quick",
            Selection::Tiny => "tiny",
            Selection::Sample => "sample",
            Selection::Full => "full",
            Selection::Preset(preset) => preset.name(),
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let presets = Preset::ALL.into_iter().map(Selection::Preset);
        let all = [Selection::Quick, Selection::Tiny, Selection::Sample, Selection::Full];
        let all = all.into_iter().chain(presets);
        all.into_iter().find(|selection| selection.name() == name)
    }

    /// The arguments of `ramie lab` that select it.
    pub(crate) fn flags(self) -> String {
        match self {
            Selection::Quick => "neither --full nor --preset".to_owned(),
            Selection::Tiny => "--tiny".to_owned(),
            Selection::Sample => "--sample".to_owned(),
            Selection::Full => "--full".to_owned(),
            Selection::Preset(preset) => format!("--preset {}", preset.name()),
        }
    }

    pub(crate) fn experiments(self) -> Vec<Planned> {
        match self {
            Selection::Quick | Selection::Tiny | Selection::Sample => quick::experiments(self),
            Selection::Preset(preset) => preset.experiments(),
            Selection::Full => {
                let mut all = quick::experiments(self);
                for planned in Preset::ALL.into_iter().flat_map(Preset::experiments) {
                    let is_it =
                        |other: &&mut Planned| other.experiment.name == planned.experiment.name;
                    // A preset has some experiments of the quick grid on more engines.
                    match all.iter_mut().find(is_it) {
                        Some(quick) => *quick = planned,
                        None => all.push(planned),
                    }
                }
                all
            }
        }
    }

    /// The posts whose experiments are measured.
    pub(crate) fn posts(self) -> Vec<Post> {
        match self {
            Selection::Quick | Selection::Tiny | Selection::Sample => Vec::new(),
            Selection::Preset(preset) => vec![preset.post()],
            Selection::Full => Preset::ALL.map(Preset::post).into(),
        }
    }

    pub(crate) fn rounds(self) -> u32 {
        if self.is_small() { 1 } else { 5 }
    }

    /// Whether it is for tests.
    fn is_small(self) -> bool {
        matches!(self, Selection::Tiny | Selection::Sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_inside_a_sentence_keeps_its_abbreviations() {
        for (title, inside) in [
            ("Time for one hop", "time for one hop"),
            ("CPU time for one message, of all CPUs", "CPU time for one message, of all CPUs"),
            ("Requests per second of an HTTP server", "requests per second of an HTTP server"),
        ] {
            assert_eq!(View::new(title, Quantity::Cpu).title_inside(), inside);
        }
    }
}
