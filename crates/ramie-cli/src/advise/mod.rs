//! `ramie advise`: measures a mix of computing and waiting on all engines of this machine, and
//! recommends one.
//!
//! Modules in the order of their use: [`description`] (the work, from flags, a file or
//! [`questions`]), [`arm`] (the ways to run it), [`measure`] (the rounds), [`choice`] (the rule,
//! and the confidence), [`tipping`] (where another engine would win), [`skeleton`] and [`answer`].

mod answer;
mod arm;
mod choice;
mod description;
mod flags;
mod measure;
mod questions;
mod skeleton;
mod tipping;

pub(crate) use self::flags::Advise;
use self::{answer::Answer, description::Description, measure::Campaign};
use crate::{failure::Failure, interrupt::Interrupt, other_load::Ticks, output, runtime};

pub(crate) fn advise(flags: &Advise) -> Result<(), Failure> {
    let description = Description::find(flags)?;
    runtime::check_environment()?;
    let interrupt = Interrupt::watch()?;
    let before = Ticks::now();
    let mut campaign = Campaign::new(&description, &interrupt);
    campaign.measure();
    let Some(choice) = choice::choose(&campaign.arms, description.memory_limit) else {
        return Err(no_choice(&description, &campaign));
    };
    let tipping = tipping::measure(&mut campaign, choice.best);
    let load = before.zip(Ticks::now()).and_then(|(before, after)| before.until(after));
    let answer = Answer {
        description,
        arms: std::mem::take(&mut campaign.arms),
        choice,
        tipping,
        others: load.map(|load| load.others + load.steal),
        is_partial: campaign.is_interrupted(),
        rounds: campaign.rounds,
        seconds: campaign.spent().as_secs_f64(),
        iterations_per_ms: campaign.iterations_per_ms,
    };
    // Before the answer, because a bar on the terminal would overwrite it.
    drop(campaign);
    match flags.json {
        true => output::line(&answer.json().to_string()),
        false => output::line(answer.text().trim_end()),
    }
}

/// Why no arm can be recommended.
fn no_choice(description: &Description, campaign: &Campaign<'_>) -> Failure {
    let memory = campaign.arms.iter().filter_map(|arm| arm.memory().map(|memory| memory.median));
    let least = memory.min_by(f64::total_cmp);
    let failed = campaign.arms.iter().find_map(|arm| arm.failed.as_deref());
    Failure::other(match (least, description.memory_limit, failed) {
        (Some(least), Some(limit), _) => format!(
            "every way to run this takes more than {} MiB of memory, the smallest {:.1} MiB; raise \
             --memory-limit, or lower --concurrency",
            limit >> 20,
            least / f64::from(1 << 20)
        ),
        _ if campaign.is_interrupted() => {
            "ended before anything was measured, so there is no advice; run it again".to_owned()
        }
        (_, _, Some(why)) => format!("could not measure anything: {why}"),
        _ => "could not measure anything in this time; raise --seconds".to_owned(),
    })
}
