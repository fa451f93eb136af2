//! Robert Clipsham, "Getting more fiber in your diet", 2011: people are fed by threads and by D's
//! fibers. Its graphs have no numbers; a comment below it has.

use ramie_workloads::Feed;

use super::{Draft, FIBERS, Post, Quantity, Relation, THREADS, ahead, claim, published};
use crate::{
    lab::plan::{
        View,
        draft::{grid, grid_on, small},
        quick,
    },
    workload::{Engine, Workload},
};

/// Andrej M., in a comment of 2011. The comment names no unit; microseconds fit its machine.
const COMMENT: (&str, u32) = ("Athlon II X4 620 at 2.61 GHz, Windows XP, D", 2011);
const THREADS_US: [(u64, f64); 5] =
    [(10, 51_292.0), (100, 51_290.0), (1000, 50_043.0), (10_000, 107_626.0), (100_000, 799_746.0)];
const FIBERS_US: [(u64, f64); 5] = [
    (10, 6_293.0),
    (100, 27_430.0),
    (1000, 239_674.0),
    (10_000, 2_381_763.0),
    (100_000, 23_982_260.0),
];

pub(super) fn experiments() -> Vec<Draft> {
    let feed = |nutrients| quick::feed(nutrients, 11, &Engine::FEED);
    let mut all: Vec<_> = quick::NUTRIENTS.map(feed).into();
    all.extend([by_nutrients(), alike()]);
    all
}

/// T.G., in a comment of 2015, finds the post unfair: its fibers switch after each nutrient, its
/// threads hardly ever.
fn alike() -> Draft {
    let workload = |people| {
        let yield_every = Some(1);
        Workload::Feed(Feed { people: small(people), nutrients: 1000, yield_every, pass: None })
    };
    Draft {
        name: "alike-1000".to_owned(),
        title: "Feeding people 1,000 nutrients each, where all yield".to_owned(),
        about: "Fibers and threads yield after each nutrient, as T.G. proposed in a comment on \
                the post. So each does the same work.",
        x_noun: "people",
        points: grid([1, 4, 16, 64, 256, 1024], workload),
        views: vec![View::new("Time for all where all yield", Quantity::Seconds)],
        published: Vec::new(),
    }
}

fn by_nutrients() -> Draft {
    let of_comment = |name, figures: [(u64, f64); 5]| {
        let seconds = figures.map(|(x, us)| (x, us * 1e-6));
        published(name, COMMENT, Quantity::Seconds, seconds)
    };
    Draft {
        name: "nutrients-1024".to_owned(),
        title: "Feeding 1,024 people".to_owned(),
        about: "The same with 1,024 people, over the nutrients for each: the grid of Andrej M., \
                who commented on the post. Fibers yield after each nutrient; threads do not.",
        x_noun: "nutrients each",
        points: grid_on(&Engine::FEED, (1..=5).map(|power| 10_u64.pow(power)), |nutrients| {
            Workload::feed(1024, small(nutrients))
        }),
        views: vec![View::new("Time to feed 1,024 people", Quantity::Seconds)],
        published: vec![of_comment("D fibers", FIBERS_US), of_comment("D threads", THREADS_US)],
    }
}

pub(super) fn post() -> Post {
    let at = |nutrients: &str, winner, loser| {
        let place = format!("with 2,048 people and {nutrients} nutrients");
        let experiment = format!("feed-{}", nutrients.replace(',', ""));
        claim(&experiment, &place, 2048, ahead(winner, loser, None))
    };
    let linear = Relation::Linear { arm: FIBERS, from: 256 };
    Post {
        name: "fibers-vs-threads".to_owned(),
        author: "Robert Clipsham".to_owned(),
        title: "Getting more fiber in your diet".to_owned(),
        year: 2011,
        machine: "2.2 GHz Core 2 Duo, 2 GB, Mac OS X, 32 bits, D (dmd 2.052)".to_owned(),
        claims: vec![
            at("10", FIBERS, THREADS),
            at("100", FIBERS, THREADS),
            at("1,000", THREADS, FIBERS),
            at("10,000", THREADS, FIBERS),
            claim("feed-10000", "with 10,000 nutrients", 2048, linear),
        ],
        cut: vec![
            "The post has every number of people from 1 to 2,048; here are the powers of two."
                .to_owned(),
        ],
    }
}
