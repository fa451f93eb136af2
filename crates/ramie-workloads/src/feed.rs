//! Feeding people: many strands each take many small steps in turns.
//!
//! A fiber yields after each nutrient unless it is asked to yield at other intervals. A thread does
//! not, because the kernel preempts it.

use std::{hint::black_box, iter::Sum, ops::Add};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::{
    Cost, WorkloadError,
    count::{count, count_or_none},
    strands::{StrandKind, join_all, spawn_all},
    usage::Stopwatch,
};

/// P strands each take N nutrients and yield after each one: the cost of taking turns
///
/// Each strand adds 1 to three counters of its own person N times. A fiber yields after each
/// nutrient; a thread does not, unless --yield-every asks for it (sched_yield). One op is one
/// nutrient of one person. Every counter must be N in the end.
///
/// On coroutines there is no scheduler: a loop resumes each in turn until all are done. Processes
/// send the sums of their people's counters to the first process through a pipe; the time ends when
/// the last has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Feed {
    /// Number of people
    #[arg(long, value_name = "P", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub people: u32,
    /// Number of nutrients per person
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub nutrients: u32,
    /// Yield after every K nutrients, never if K is 0 [default: 1; with --on threads 0]
    #[arg(long, value_name = "K", value_parser = count_or_none, allow_negative_numbers = true)]
    pub yield_every: Option<u32>,
    /// How coroutines take turns, with --on coroutines [default: loop]
    #[arg(long, value_enum, value_name = "ORDER")]
    pub pass: Option<Pass>,
}

/// How coroutines take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Pass {
    /// A loop resumes each coroutine in turn
    #[default]
    Loop,
    /// Each coroutine resumes the next one from its own stack, and suspends when control comes back
    /// from the last one. A turn is one resume and one suspend as with a loop, because a coroutine
    /// can suspend only to its resumer; measured, it takes up to three times as long
    Next,
}

impl Pass {
    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Loop => "loop",
            Pass::Next => "next",
        }
    }
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

    /// Takes this number of nutrients, with a yield after every `yield_every` of them, or without a
    /// yield if that is 0.
    #[inline(always)]
    pub fn fed(nutrients: u32, yield_every: u32, yield_now: impl Fn()) -> Self {
        let mut person = Person::default();
        // Loops of their own, so that the ordinary ones do not count down.
        match yield_every {
            0 => (0..nutrients).for_each(|_| person.feed()),
            1 => (0..nutrients).for_each(|_| {
                person.feed();
                yield_now();
            }),
            _ => {
                let mut left = yield_every;
                for _ in 0..nutrients {
                    person.feed();
                    left -= 1;
                    if left == 0 {
                        left = yield_every;
                        yield_now();
                    }
                }
            }
        }
        person
    }

    /// Whether each counter is `nutrients`.
    pub fn is_satisfied(&self, nutrients: u32) -> bool {
        [self.iron, self.calcium, self.fiber] == [nutrients; 3]
    }
}

/// The sum of the counters of several people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fed {
    /// The number of people with the right number of each nutrient.
    satisfied: u64,
    /// The sums of the three counters.
    counters: [u64; 3],
}

impl Fed {
    /// The counters of one person, each of which should be `nutrients`.
    pub fn one(person: &Person, nutrients: u32) -> Self {
        let counters = [person.iron, person.calcium, person.fiber].map(u64::from);
        Fed { satisfied: person.is_satisfied(nutrients).into(), counters }
    }
}

impl Add for Fed {
    type Output = Fed;

    fn add(self, other: Fed) -> Fed {
        let counter = |index: usize| self.counters[index].wrapping_add(other.counters[index]);
        let counters = [counter(0), counter(1), counter(2)];
        Fed { satisfied: self.satisfied + other.satisfied, counters }
    }
}

impl Sum for Fed {
    fn sum<I: Iterator<Item = Fed>>(all: I) -> Fed {
        all.fold(Fed::default(), Add::add)
    }
}

impl Feed {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        let own = [("people", self.people.into()), ("nutrients", self.nutrients.into())];
        own.into_iter().chain(self.yield_every.map(|every| ("yield-every", every.into()))).collect()
    }

    pub(crate) fn ops(&self) -> u64 {
        u64::from(self.people) * u64::from(self.nutrients)
    }

    /// After how many nutrients strands yield, which have to yield if they are cooperative.
    pub fn yields_every(&self, is_cooperative: bool) -> u32 {
        self.yield_every.unwrap_or(is_cooperative.into())
    }

    /// The part of the people of process `number` among `of` processes.
    #[must_use]
    pub fn share(&self, number: u32, of: u32) -> Self {
        Feed { people: self.people / of + u32::from(number < self.people % of), ..*self }
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(&self) -> Result<Cost, WorkloadError> {
        let (fed, cost) = self.fed::<S>()?;
        self.check(fed)?;
        Ok(cost)
    }

    /// Runs the workload on strands. The result has to be [checked](Self::check).
    pub fn fed<S: StrandKind>(&self) -> Result<(Fed, Cost), WorkloadError> {
        let (people, nutrients) = (self.people as usize, self.nutrients);
        let yield_every = self.yields_every(S::IS_COOPERATIVE);
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(people, |_| {
            move || Person::fed(nutrients, yield_every, || S::yield_now())
        })
        .map_err(|failure| failure.give_up())?;
        let mut fed = Fed::default();
        join_all::<S, Person>(strands, |person| fed = fed + Fed::one(&person, nutrients))?;
        Ok((fed, watch.stop()))
    }

    /// Fails if not everybody has taken everything.
    pub fn check(&self, fed: Fed) -> Result<(), WorkloadError> {
        let (people, nutrients) = (self.people, self.nutrients);
        let all = Fed { satisfied: people.into(), counters: [self.ops(); 3] };
        if fed == all {
            return Ok(());
        }
        Err(WorkloadError::wrong(format!(
            "feed went wrong: {} of {people} people got {nutrients} of each nutrient, and the \
             counters add up to {:?}",
            fed.satisfied, fed.counters
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Fed, Feed, Person};

    fn yields(nutrients: u32, yield_every: u32) -> u32 {
        let yields = Cell::new(0);
        let person = Person::fed(nutrients, yield_every, || yields.set(yields.get() + 1));
        assert!(person.is_satisfied(nutrients));
        yields.get()
    }

    #[test]
    fn people_yield_as_often_as_asked() {
        assert_eq!([0, 1, 2, 3, 10, 11].map(|every| yields(10, every)), [0, 10, 5, 3, 1, 0]);
    }

    #[test]
    fn hungry_people_and_wrong_sums_are_noticed() {
        let feed = Feed { people: 2, nutrients: 3, yield_every: None, pass: None };
        let one = Fed::one(&Person::fed(3, 1, || ()), 3);
        feed.check([one, one].into_iter().sum()).unwrap();
        for wrong in [
            one,
            one + Fed::one(&Person::fed(2, 1, || ()), 3),
            one + Fed::one(&Person::fed(2, 1, || ()), 2),
            Fed { satisfied: 2, ..Fed::default() },
        ] {
            assert!(feed.check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn shares_add_up_to_all_people() {
        let feed = Feed { people: 11, nutrients: 3, yield_every: None, pass: None };
        assert_eq!([0, 1, 2].map(|number| feed.share(number, 3).people), [4, 4, 3]);
    }
}
