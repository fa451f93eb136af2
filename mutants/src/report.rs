//! The report: totals for each room, and the survivors with the reasons for which they may live.

use std::{collections::BTreeMap, fmt};

use crate::{list::Mutant, verdicts::Verdicts};

/// The least share of mutants that tests must catch, in percent.
const LEAST_CAUGHT: usize = 85;

#[derive(Default, Clone, Copy)]
struct Total {
    caught: usize,
    run: usize,
    listed: usize,
}

pub struct Report<'a> {
    rooms: BTreeMap<&'a str, Total>,
    all: Total,
    survivors: Vec<&'a Mutant>,
}

impl<'a> Report<'a> {
    pub fn new(mutants: &[&'a Mutant], verdicts: &Verdicts) -> Self {
        let (mut rooms, mut all) = (BTreeMap::<&str, Total>::new(), Total::default());
        let mut survivors = Vec::new();
        for mutant in mutants {
            let verdict = verdicts.of(mutant);
            for total in [rooms.entry(&mutant.room).or_default(), &mut all] {
                total.listed += 1;
                total.run += usize::from(verdict.is_some());
                total.caught += usize::from(matches!(verdict, Some(Some(_))));
            }
            if verdict == Some(None) {
                survivors.push(*mutant);
            }
        }
        Report { rooms, all, survivors }
    }

    /// Whether enough were caught, and a reason is stated for each of the others.
    pub fn is_fine(&self) -> bool {
        self.all.caught * 100 >= self.all.run * LEAST_CAUGHT
            && self.survivors.iter().all(|mutant| mutant.lives.is_some())
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} listed    run caught   share", "room")?;
        for (room, total) in self.rooms.iter().chain([(&"all", &self.all)]) {
            let Total { caught, run, listed } = *total;
            let share = (caught * 100).checked_div(run).unwrap_or(0);
            writeln!(f, "{room:<14} {listed:>6} {run:>6} {caught:>6} {share:>5} %")?;
        }
        writeln!(f, "\nsurvivors:")?;
        for mutant in &self.survivors {
            let why = mutant.lives.as_deref().unwrap_or("NO REASON IS STATED: write a test");
            writeln!(f, "{}: {}", mutant.full_name(), why.replace("\n  ", " "))?;
        }
        Ok(())
    }
}
