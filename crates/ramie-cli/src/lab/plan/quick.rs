//! The quick grid, which `ramie lab` measures within two minutes, each point in at least three
//! rounds.
//!
//! A sample a hundred times as long has hardly less spread, because it is the state of the machine
//! that differs between rounds, so a longer one would only cost rounds.

use ramie_workloads::{Basic, TaskWait};

use super::{
    Arm, Planned, Quantity, Selection, View,
    draft::{Draft, grid, grid_on, small},
};
use crate::{
    lab::figure::thousands,
    workload::{Engine, TaskCall, Workload},
};

pub(super) const NUTRIENTS: [u32; 4] = [10, 100, 1000, 10_000];
const RING_HOPS: u64 = 20_000;

pub(super) fn experiments(selection: Selection) -> Vec<Planned> {
    let most = if selection.is_small() { 2 } else { 11 };
    let mut all: Vec<_> = NUTRIENTS.map(|nutrients| feed(nutrients, most, &Engine::STRANDS)).into();
    all.extend([ring(selection), spawn(selection), alive(selection), switch(selection)]);
    all.extend([pipe(selection), socketpair(selection)]);
    all.extend(
        [TaskCall::Quick, TaskCall::Medium, TaskCall::Slow].map(|call| basic(call, selection)),
    );
    all.extend([recurse(selection), recurse2(selection)]);
    if selection.is_small() {
        all.drain(1..4);
    }
    if selection == Selection::Sample {
        all.retain(|draft| ["feed-10", "ring", "spawn", "switch"].contains(&draft.name.as_str()));
    }
    all.into_iter().map(Draft::planned).collect()
}

/// People in powers of two, up to the power `most`.
pub(super) fn feed(nutrients: u32, most: u32, engines: &[Engine]) -> Draft {
    let workload = |people| Workload::feed(small(people), nutrients);
    Draft {
        name: format!("feed-{nutrients}"),
        title: format!("Feeding people {} nutrients each", thousands(nutrients.into())),
        about: "Each person is a strand that adds 1 to three counters for each nutrient. Fibers \
                yield after each nutrient; threads do not.",
        x_noun: "people",
        points: grid_on(engines, (0..=most).map(|power| 1 << power), workload),
        views: vec![View::new("Time for all", Quantity::Seconds)],
        published: Vec::new(),
    }
}

fn ring(selection: Selection) -> Draft {
    let sizes: &[u64] = if selection.is_small() { &[2, 20] } else { &[2, 8, 32, 125, 500, 2000] };
    let hops = if selection.is_small() { 200 } else { RING_HOPS };
    Draft {
        name: "ring".to_owned(),
        title: "Passing a token round a ring".to_owned(),
        about: "Strands in a ring wake each other in turn, by park and unpark, 20,000 hops in \
                all. The time includes spawning and joining them, a large part in large rings; \
                `ramie run ring` with many more hops measures the hop alone.",
        x_noun: "strands in the ring",
        points: grid(sizes.iter().copied(), |size| Workload::ring(small(size), hops)),
        views: vec![View::new(
            "Time for one hop, the spawning of the strands included",
            Quantity::PerOp,
        )],
        published: Vec::new(),
    }
}

fn spawn(selection: Selection) -> Draft {
    let most = if selection.is_small() { 2 } else { 6 };
    Draft {
        name: "spawn".to_owned(),
        title: "Spawning and joining".to_owned(),
        about: "Strands that add 1 to a counter are spawned, all handles are kept, then all are \
                joined in order.",
        x_noun: "strands",
        points: grid((1..=most).map(|power| 10_u64.pow(power)), |x| Workload::spawn(small(x))),
        views: vec![View::new("Time for one strand", Quantity::PerOp)],
        published: Vec::new(),
    }
}

fn alive(selection: Selection) -> Draft {
    // The memory of one strand is the same from 10,000 on, and a million of them takes 20 s.
    let powers = match selection {
        Selection::Tiny | Selection::Sample => 1..=2,
        Selection::Full => 2..=6,
        _ => 2..=5,
    };
    let mut points = grid(powers.map(|power| 10_u64.pow(power)), |x| Workload::alive(small(x)));
    if selection != Selection::Full {
        points.retain(|point| point.x < 10_000 || point.arm != Arm::of(Engine::Threads));
    }
    Draft {
        name: "alive".to_owned(),
        title: "Keeping many strands alive".to_owned(),
        about: "Strands are parked all at once; memory is read when the last one parks. Each \
                reading is the second of two fresh processes.",
        x_noun: "strands alive",
        points,
        views: vec![
            View::new("Memory of one strand", Quantity::Memory),
            View::new("Time for one strand, from spawn to join", Quantity::PerOp),
        ],
        published: Vec::new(),
    }
}

fn switch(selection: Selection) -> Draft {
    // On a busy machine a thread gives a whole time slice away by each yield. Three points, because
    // `lab compare` names a change of a tenth only if several points of a series agree on it.
    let counts: &[u64] = if selection.is_small() { &[100] } else { &[250_000, 500_000, 1_000_000] };
    Draft {
        name: "switch".to_owned(),
        title: "Switching between two strands".to_owned(),
        about: "Two strands yield to each other, up to a million times. Threads and the fibers of \
                a hybrid may run on two CPUs, so a yield may have no other strand to switch to.",
        x_noun: "yields of each",
        points: grid(counts.iter().copied(), |x| Workload::switch(small(x))),
        views: vec![View::new("Time for one yield", Quantity::PerOp)],
        published: Vec::new(),
    }
}

fn pipe(selection: Selection) -> Draft {
    transfer(
        "pipe",
        "Writing into pipes and reading from them",
        "In each pair one strand writes 1,000 messages of 1,024 bytes into a pipe, another reads \
         them and checks every byte. Fibers submit their calls together, through a ring if there \
         is one; a thread enters the kernel for each call. Fibers use one CPU, threads and the \
         hybrid all.",
        "Time for one message through a pipe",
        selection,
        Workload::pipe,
    )
}

fn socketpair(selection: Selection) -> Draft {
    transfer(
        "socketpair",
        "Sending through sockets and receiving",
        "As with pipes, but through pairs of connected Unix sockets: 1,000 messages of 1,024 \
         bytes from one strand of a pair to the other, which checks every byte. Fibers use one \
         CPU, threads and the hybrid all.",
        "Time for one message through a socket",
        selection,
        Workload::socketpair,
    )
}

fn transfer(
    name: &str,
    title: &str,
    about: &'static str,
    time: &'static str,
    selection: Selection,
    workload: impl Fn(u32, u32, u32) -> Workload,
) -> Draft {
    let pairs: &[u64] = if selection.is_small() { &[1, 4] } else { &[1, 4, 16, 48, 128] };
    let messages = if selection.is_small() { 20 } else { 1000 };
    Draft {
        name: name.to_owned(),
        title: title.to_owned(),
        about,
        x_noun: "pairs of strands",
        points: grid_on(&Engine::IO, pairs.iter().copied(), |x| workload(small(x), messages, 1024)),
        views: vec![
            View::new(time, Quantity::PerOp),
            View::new("CPU time for one message, of all CPUs", Quantity::Cpu),
        ],
        published: Vec::new(),
    }
}

/// One task that makes a call that could block.
fn basic(call: TaskCall, selection: Selection) -> Draft {
    const WITH_TIMERS: [Engine; 3] = [Engine::Fibers, Engine::Threads, Engine::Futures];
    let (engines, most): (&[Engine], u32) = match call {
        TaskCall::Slow => (&WITH_TIMERS, 2),
        TaskCall::Quick | TaskCall::Medium => (&Engine::TASKS_IN_LAB, 8),
    };
    let most = if selection.is_small() { 1 } else { most };
    // A future sleeps for a millisecond at least, so there are few rounds.
    let rounds = match (call, selection) {
        (TaskCall::Slow, Selection::Tiny | Selection::Sample) => Some(3),
        (TaskCall::Slow, _) => Some(50),
        _ => None,
    };
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
            "In each of 50 rounds one task sleeps N times for a microsecond. The timers of \
             tokio count milliseconds, and Linux wakes a sleeping thread up to 50 µs late. A \
             coroutine has no timers.",
        ),
    };
    let powers = (0..=most).step_by(if most > 2 { 2 } else { 1 });
    Draft {
        name: format!("basic-{}", call.name()),
        title: title.to_owned(),
        about,
        x_noun: if call == TaskCall::Slow {
            "calls a round"
        } else {
            "calls in each of 15,000 rounds"
        },
        points: grid_on(engines, powers.map(|power| 1 << power), |x| {
            Workload::Basic(Basic { yields: small(x), wait: TaskWait { call, rounds } })
        }),
        views: vec![View::new(time, Quantity::Seconds)],
        published: Vec::new(),
    }
}

fn recurse(selection: Selection) -> Draft {
    let depths: &[u64] = if selection.is_small() { &[2, 20] } else { &[10, 50, 100, 500, 1000] };
    Draft {
        name: "recurse".to_owned(),
        title: "Yielding at the bottom of a recursion".to_owned(),
        about: "One task recurses 15,000 times and yields at the bottom only. A fiber and a \
                coroutine keep their stack; a future has a box for each level, and a poll goes \
                through all of them.",
        x_noun: "levels",
        points: grid_on(&Engine::TASKS_IN_LAB, depths.iter().copied(), |x| {
            Workload::recurse(small(x))
        }),
        views: vec![View::new("Time for 15,000 yields at the bottom", Quantity::Seconds)],
        published: Vec::new(),
    }
}

fn recurse2(selection: Selection) -> Draft {
    // The time of the futures grows with the square of the levels: with 500 it is a second.
    let depths: &[u64] = if selection.is_small() { &[2, 20] } else { &[10, 50, 100, 250] };
    Draft {
        name: "recurse2".to_owned(),
        title: "Yielding at each level of a recursion".to_owned(),
        about: "One task recurses 1,500 times and yields at each level. In a future the cost of \
                a yield grows with its level.",
        x_noun: "levels",
        points: grid_on(&Engine::TASKS_IN_LAB, depths.iter().copied(), |x| {
            Workload::recurse2(small(x))
        }),
        views: vec![View::new(
            "Time for 1,500 recursions, yielding at each level",
            Quantity::Seconds,
        )],
        published: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Selection, experiments};

    #[test]
    fn the_quick_grid_is_the_promised_one() {
        let all = experiments(Selection::Quick);
        let feed: Vec<_> = all.iter().filter(|e| e.experiment.name.starts_with("feed")).collect();
        assert_eq!(feed.len(), 4);
        for experiment in feed {
            assert_eq!(experiment.points.len(), 12 * 3, "{}", experiment.experiment.name);
            assert_eq!(experiment.points.first().map(|point| point.x), Some(1));
            assert_eq!(experiment.points.last().map(|point| point.x), Some(2048));
        }
        let names: Vec<_> = all.iter().map(|e| e.experiment.name.as_str()).collect();
        assert_eq!(names[4..10], ["ring", "spawn", "alive", "switch", "pipe", "socketpair"]);
        let tasks = ["basic-quick", "basic-medium", "basic-slow", "recurse", "recurse2"];
        assert_eq!(names[10..], tasks);
    }
}
