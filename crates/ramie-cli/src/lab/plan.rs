//! The experiments, as data: the points to measure, and the views of their figures.

use crate::workload::{Engine, TaskCall, Workload};

/// A family of points that share a section of the report.
#[derive(Debug)]
pub(super) struct Experiment {
    /// The name in the files, such as `feed-1000`.
    pub(super) name: String,
    pub(super) title: String,
    /// A description for the report, in one to three sentences.
    pub(super) about: &'static str,
    /// The unit of `Point::x`.
    pub(super) x_noun: &'static str,
    pub(super) points: Vec<Point>,
    pub(super) views: Vec<View>,
}

impl Experiment {
    /// The engines of its points: fibers first, then those they are compared with.
    pub(super) fn engines(&self) -> Vec<Engine> {
        let Some(first) = self.points.first() else { return Vec::new() };
        self.points.iter().take_while(|point| point.x == first.x).map(|point| point.on).collect()
    }

    /// The engine that fibers are mainly compared with, if any.
    pub(super) fn baseline(&self) -> Option<Engine> {
        self.engines().get(1).copied()
    }
}

/// One workload with its parameters, on one engine.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) workload: Workload,
    pub(super) on: Engine,
    pub(super) x: u64,
}

/// One view of an experiment: a quantity over x. Lower is better in all of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) title: &'static str,
    pub(super) quantity: Quantity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// The whole run, in seconds.
    Seconds,
    /// One op, in nanoseconds.
    PerOp,
    /// One op, in nanoseconds of all CPUs together.
    Cpu,
    /// Resident memory and page tables of one strand, in bytes.
    Memory,
}

/// How much of the grid is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Quick,
    Tiny,
}

const NUTRIENTS: [u32; 4] = [10, 100, 1000, 10_000];
const RING_HOPS: u64 = 20_000;

pub(super) fn experiments(extent: Extent) -> Vec<Experiment> {
    let mut all: Vec<_> = NUTRIENTS.iter().map(|nutrients| feed(*nutrients, extent)).collect();
    all.extend([ring(extent), spawn(extent), alive(extent), switch(extent)]);
    all.extend([pipe(extent), socketpair(extent)]);
    all.extend([TaskCall::Quick, TaskCall::Medium, TaskCall::Slow].map(|call| basic(call, extent)));
    all.extend([recurse(extent), recurse2(extent)]);
    if extent == Extent::Tiny {
        all.drain(1..4);
    }
    all
}

/// Every x on every engine of strands. The engines are next to each other, so a slow drift of the
/// machine affects all three alike.
fn grid(xs: impl IntoIterator<Item = u64>, workload: impl Fn(u64) -> Workload) -> Vec<Point> {
    grid_on(&Engine::STRANDS, xs, workload)
}

fn grid_on(
    engines: &[Engine],
    xs: impl IntoIterator<Item = u64>,
    workload: impl Fn(u64) -> Workload,
) -> Vec<Point> {
    let at = |x| engines.iter().map(move |on| (x, *on));
    let point = |(x, on)| Point { workload: workload(x), on, x };
    xs.into_iter().flat_map(at).map(point).collect()
}

fn small(x: u64) -> u32 {
    u32::try_from(x).expect("the grid's numbers are small")
}

fn feed(nutrients: u32, extent: Extent) -> Experiment {
    let most = if extent == Extent::Tiny { 2 } else { 11 };
    let workload = |people| Workload::feed(small(people), nutrients);
    Experiment {
        name: format!("feed-{nutrients}"),
        title: format!(
            "Feeding people {} nutrients each",
            super::figure::thousands(nutrients.into())
        ),
        about: "Each person is a strand that adds 1 to three counters for each nutrient. Fibers \
                yield after each nutrient; threads do not.",
        x_noun: "people",
        points: grid((0..=most).map(|power| 1 << power), workload),
        views: vec![View { title: "Time for all", quantity: Quantity::Seconds }],
    }
}

fn ring(extent: Extent) -> Experiment {
    let sizes: &[u64] = if extent == Extent::Tiny { &[2, 20] } else { &[2, 8, 32, 125, 500, 2000] };
    let hops = if extent == Extent::Tiny { 200 } else { RING_HOPS };
    Experiment {
        name: "ring".to_owned(),
        title: "Passing a token round a ring".to_owned(),
        about: "Strands in a ring wake each other in turn, by park and unpark, 20,000 hops in \
                all. The time includes spawning and joining them, a large part in large rings; \
                `ramie run ring` with many more hops measures the hop alone.",
        x_noun: "strands in the ring",
        points: grid(sizes.iter().copied(), |size| Workload::ring(small(size), hops)),
        views: vec![View {
            title: "Time for one hop, the spawning of the strands included",
            quantity: Quantity::PerOp,
        }],
    }
}

fn spawn(extent: Extent) -> Experiment {
    let most = if extent == Extent::Tiny { 2 } else { 6 };
    Experiment {
        name: "spawn".to_owned(),
        title: "Spawning and joining".to_owned(),
        about: "Strands that add 1 to a counter are spawned, all handles are kept, then all are \
                joined in order.",
        x_noun: "strands",
        points: grid((1..=most).map(|power| 10_u64.pow(power)), |x| Workload::spawn(small(x))),
        views: vec![View { title: "Time for one strand", quantity: Quantity::PerOp }],
    }
}

fn alive(extent: Extent) -> Experiment {
    let powers = if extent == Extent::Tiny { 1..=2 } else { 2..=6 };
    Experiment {
        name: "alive".to_owned(),
        title: "Keeping many strands alive".to_owned(),
        about: "Strands are parked all at once; memory is read when the last one parks. Each \
                reading is the second of two fresh processes.",
        x_noun: "strands alive",
        points: grid(powers.map(|power| 10_u64.pow(power)), |x| Workload::alive(small(x))),
        views: vec![
            View { title: "Memory of one strand", quantity: Quantity::Memory },
            View { title: "Time for one strand, from spawn to join", quantity: Quantity::PerOp },
        ],
    }
}

fn switch(extent: Extent) -> Experiment {
    let count = if extent == Extent::Tiny { 1000 } else { 1_000_000 };
    Experiment {
        name: "switch".to_owned(),
        title: "Switching between two strands".to_owned(),
        about: "Two strands yield to each other a million times. Threads and the fibers of a \
                hybrid may run on two CPUs, so a yield may have no other strand to switch to.",
        x_noun: "yields of each",
        points: grid([count], |x| Workload::switch(small(x))),
        views: vec![View { title: "Time for one yield", quantity: Quantity::PerOp }],
    }
}

fn pipe(extent: Extent) -> Experiment {
    transfer(
        "pipe",
        "Writing into pipes and reading from them",
        "In each pair one strand writes 1,000 messages of 1,024 bytes into a pipe, another reads \
         them and checks every byte. Fibers submit their calls together, through a ring if there \
         is one; a thread enters the kernel for each call. Fibers use one CPU, threads and the \
         hybrid all.",
        "Time for one message through a pipe",
        extent,
        Workload::pipe,
    )
}

fn socketpair(extent: Extent) -> Experiment {
    transfer(
        "socketpair",
        "Sending through sockets and receiving",
        "As with pipes, but through pairs of connected Unix sockets: 1,000 messages of 1,024 \
         bytes from one strand of a pair to the other, which checks every byte. Fibers use one \
         CPU, threads and the hybrid all.",
        "Time for one message through a socket",
        extent,
        Workload::socketpair,
    )
}

fn transfer(
    name: &str,
    title: &str,
    about: &'static str,
    time: &'static str,
    extent: Extent,
    workload: impl Fn(u32, u32, u32) -> Workload,
) -> Experiment {
    let pairs: &[u64] = if extent == Extent::Tiny { &[1, 4] } else { &[1, 4, 16, 48, 128] };
    let messages = if extent == Extent::Tiny { 20 } else { 1000 };
    Experiment {
        name: name.to_owned(),
        title: title.to_owned(),
        about,
        x_noun: "pairs of strands",
        points: grid_on(&Engine::IO, pairs.iter().copied(), |x| workload(small(x), messages, 1024)),
        views: vec![
            View { title: time, quantity: Quantity::PerOp },
            View { title: "CPU time for one message, of all CPUs", quantity: Quantity::Cpu },
        ],
    }
}

/// One task that makes a call that could block.
fn basic(call: TaskCall, extent: Extent) -> Experiment {
    let (engines, most): (&[Engine], u32) = match call {
        TaskCall::Slow => (&[Engine::Fibers], 2),
        TaskCall::Quick | TaskCall::Medium => (&Engine::TASKS, 8),
    };
    let most = if extent == Extent::Tiny { 1 } else { most };
    let (title, time, about) = match call {
        TaskCall::Quick => (
            "Calls that return at once",
            "Time for calls that return at once",
            "In each of 15,000 rounds one task makes N calls that could block but return at once. \
             On a fiber and a coroutine that is a function call, in a future an await.",
        ),
        TaskCall::Medium => (
            "Calls that yield",
            "Time for calls that yield",
            "In each of 15,000 rounds one task makes N calls that suspend it. A fiber yields to \
             its scheduler, a future to tokio's current-thread scheduler; a coroutine returns to \
             the loop that resumes it, without a scheduler.",
        ),
        TaskCall::Slow => (
            "Calls that register a timer",
            "Time for calls that sleep",
            "In each of 15,000 rounds one fiber sleeps N times for a microsecond. Only fibers, \
             because a coroutine has no timers, and tokio's timers count milliseconds.",
        ),
    };
    let powers = (0..=most).step_by(if most > 2 { 2 } else { 1 });
    Experiment {
        name: format!("basic-{}", call.name()),
        title: title.to_owned(),
        about,
        x_noun: "calls in each of 15,000 rounds",
        points: grid_on(engines, powers.map(|power| 1 << power), |x| {
            Workload::basic(small(x), call)
        }),
        views: vec![View { title: time, quantity: Quantity::Seconds }],
    }
}

fn recurse(extent: Extent) -> Experiment {
    let depths: &[u64] = if extent == Extent::Tiny { &[2, 20] } else { &[10, 50, 100, 500, 1000] };
    Experiment {
        name: "recurse".to_owned(),
        title: "Yielding at the bottom of a recursion".to_owned(),
        about: "One task recurses 15,000 times and yields at the bottom only. A fiber and a \
                coroutine keep their stack; a future has a box for each level, and a poll goes \
                through all of them.",
        x_noun: "levels",
        points: grid_on(&Engine::TASKS, depths.iter().copied(), |x| Workload::recurse(small(x))),
        views: vec![View {
            title: "Time for 15,000 yields at the bottom",
            quantity: Quantity::Seconds,
        }],
    }
}

fn recurse2(extent: Extent) -> Experiment {
    // At 1,000 levels the futures alone would take seconds.
    let depths: &[u64] = if extent == Extent::Tiny { &[2, 20] } else { &[10, 50, 100, 500] };
    Experiment {
        name: "recurse2".to_owned(),
        title: "Yielding at each level of a recursion".to_owned(),
        about: "One task recurses 1,500 times and yields at each level. In a future the cost of \
                a yield grows with its level.",
        x_noun: "levels",
        points: grid_on(&Engine::TASKS, depths.iter().copied(), |x| Workload::recurse2(small(x))),
        views: vec![View {
            title: "Time for 1,500 recursions, yielding at each level",
            quantity: Quantity::Seconds,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, experiments};

    #[test]
    fn the_quick_grid_is_the_promised_one() {
        let all = experiments(Extent::Quick);
        let feed: Vec<_> = all.iter().filter(|e| e.name.starts_with("feed")).collect();
        assert_eq!(feed.len(), 4);
        for experiment in feed {
            assert_eq!(experiment.points.len(), 12 * 3, "{}", experiment.name);
            assert_eq!(experiment.points.first().map(|point| point.x), Some(1));
            assert_eq!(experiment.points.last().map(|point| point.x), Some(2048));
        }
        let names: Vec<_> = all.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names[4..10], ["ring", "spawn", "alive", "switch", "pipe", "socketpair"]);
        let tasks = ["basic-quick", "basic-medium", "basic-slow", "recurse", "recurse2"];
        assert_eq!(names[10..], tasks);
        for experiment in &all {
            assert_eq!(experiment.points.len() % experiment.engines().len(), 0);
            assert_eq!(experiment.baseline().is_none(), experiment.name == "basic-slow");
        }
    }
}
