//! A run-queue policy of the program: classes of fibers take turns, however many fibers each has.
//!
//! Two polite fibers and twenty greedy ones count as fast as they can. In first-in-first-out order
//! each fiber gets the same share; with this policy each class does.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use ramie::{
    Runtime, fiber,
    policy::{Policy, Runnable},
};

/// One queue for each class; the class is the priority that the fiber was given.
#[derive(Default)]
struct RoundRobin {
    classes: BTreeMap<i8, VecDeque<Runnable>>,
    last: i8,
}

impl Policy for RoundRobin {
    fn push(&mut self, runnable: Runnable) {
        self.classes.entry(runnable.priority()).or_default().push_back(runnable);
    }

    fn pop(&mut self) -> Option<Runnable> {
        let after = self.classes.range(self.last.saturating_add(1)..);
        let in_turn = after.chain(self.classes.iter());
        let class =
            in_turn.filter(|(_, queue)| !queue.is_empty()).map(|(class, _)| *class).next()?;
        self.last = class;
        self.classes.get_mut(&class)?.pop_front()
    }
}

const GREEDY: i8 = 1;
const POLITE: i8 = 2;
const TURNS: usize = 10_000;

/// How often the polite fibers and the greedy ones had their turn.
fn turns(runtime: &Runtime) -> [usize; 2] {
    let counts = [const { AtomicUsize::new(0) }; 2];
    let total = || counts.iter().map(|count| count.load(Relaxed)).sum::<usize>();
    runtime.run(|| {
        fiber::scope(|scope| {
            for n in 0..22 {
                let (class, count) =
                    if n < 2 { (POLITE, &counts[0]) } else { (GREEDY, &counts[1]) };
                let builder = fiber::Builder::new().priority(class);
                let work = move || {
                    while total() < TURNS {
                        count.fetch_add(1, Relaxed);
                        fiber::yield_now();
                    }
                };
                builder.spawn_scoped(scope, work).expect("memory for a fiber");
            }
        });
    });
    counts.map(AtomicUsize::into_inner)
}

fn main() -> std::io::Result<()> {
    let plain = turns(&Runtime::builder().workers(1).build()?);
    let fair = turns(&Runtime::builder().workers(1).policy(RoundRobin::default).build()?);
    println!("first in, first out: 2 polite fibers had {} turns, 20 greedy {}", plain[0], plain[1]);
    println!("round robin:         2 polite fibers had {} turns, 20 greedy {}", fair[0], fair[1]);
    Ok(())
}
