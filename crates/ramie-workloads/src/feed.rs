//! Feeding people: many strands each take many small steps in turns.
//!
//! A fiber yields after each nutrient. A thread does not, because the kernel preempts it.

use std::hint::black_box;

use clap::Args;

use crate::{
    Cost, WorkloadError,
    count::count,
    strands::{StrandKind, join_all, spawn_all},
    usage::Stopwatch,
};

/// P strands each take N nutrients and yield after each one: the cost of taking turns
///
/// Each strand adds 1 to three counters of its own person N times. A fiber yields after each
/// nutrient; a thread does not. One op is one nutrient of one person. Every counter must be N in
/// the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Feed {
    /// Number of people
    #[arg(long, value_name = "P", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub people: u32,
    /// Number of nutrients per person
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub nutrients: u32,
}

/// The three counters of one person.
#[derive(Clone, Copy, Debug, Default)]
pub struct Person {
    iron: u32,
    calcium: u32,
    fiber: u32,
}

impl Person {
    /// Takes one nutrient. Opaque to the optimizer, which would otherwise turn a loop without a
    /// yield into one addition.
    #[inline(always)]
    pub fn feed(&mut self) {
        let person = black_box(self);
        person.iron += 1;
        person.calcium += 1;
        person.fiber += 1;
    }

    fn fed<S: StrandKind>(nutrients: u32) -> Self {
        let mut person = Person::default();
        for _ in 0..nutrients {
            person.feed();
            if S::IS_COOPERATIVE {
                S::yield_now();
            }
        }
        person
    }

    /// Whether each counter is `nutrients`.
    pub fn is_satisfied(&self, nutrients: u32) -> bool {
        [self.iron, self.calcium, self.fiber] == [nutrients; 3]
    }
}

impl Feed {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("people", self.people.into()), ("nutrients", self.nutrients.into())]
    }

    pub(crate) fn ops(&self) -> u64 {
        u64::from(self.people) * u64::from(self.nutrients)
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(&self) -> Result<Cost, WorkloadError> {
        let (people, nutrients) = (self.people as usize, self.nutrients);
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(people, |_| move || Person::fed::<S>(nutrients))
            .map_err(|failure| failure.give_up())?;
        let mut satisfied = 0;
        join_all::<S, Person>(strands, |person| {
            satisfied += usize::from(person.is_satisfied(nutrients));
        })?;
        let cost = watch.stop();
        if satisfied != people {
            return Err(WorkloadError::wrong(format!(
                "feed went wrong: {satisfied} of {people} people got {nutrients} of each nutrient"
            )));
        }
        Ok(cost)
    }
}
