//! Jordan Sheinfeld, "Fibers from out of (user) space – Hands on", 2018: Quasar's fibers and Java's
//! threads.

use super::{Draft, FIBERS, Post, Quantity, Relation, THREADS, ahead, claim, published};
use crate::{
    lab::plan::{
        View,
        draft::{grid, small},
    },
    workload::Workload,
};

const LAPTOP: (&str, u32) = ("ThinkPad X1, Core i7-7500U at 2.7 GHz, Ubuntu, Java", 2018);
/// Rings in a second.
const THREADS_PER_S: f64 = 10.646;
const FIBERS_PER_S: f64 = 103.241;

pub(super) fn experiments() -> Vec<Draft> {
    vec![ring(), alive()]
}

fn ring() -> Draft {
    let rings = |name, per_s: f64| published(name, LAPTOP, Quantity::Seconds, [(500, 1.0 / per_s)]);
    Draft {
        name: "ring-500".to_owned(),
        title: "A ring of 500 strands".to_owned(),
        about: "500 strands in a ring pass a token on, 10,000 times in all. The time includes \
                spawning and joining them.",
        x_noun: "strands in the ring",
        points: grid([500], |size| Workload::ring(small(size), 10_000)),
        views: vec![View::new("Time for 10,000 hops", Quantity::Seconds)],
        published: vec![rings("Quasar fibers", FIBERS_PER_S), rings("Java threads", THREADS_PER_S)],
    }
}

fn alive() -> Draft {
    Draft {
        name: "alive-100000".to_owned(),
        title: "100,000 strands at once".to_owned(),
        about: "100,000 strands are parked all at once. Java could not create so many threads on \
                the machine of the post. Threads are tried here only if they leave half of the \
                system's to other programs.",
        x_noun: "strands alive",
        points: grid([100_000], |count| Workload::alive(small(count))),
        views: vec![View::new("Memory of one of 100,000 strands", Quantity::Memory)],
        published: Vec::new(),
    }
}

pub(super) fn post() -> Post {
    let factor = FIBERS_PER_S / THREADS_PER_S;
    let possible = Relation::Possible { arm: FIBERS };
    let impossible = Relation::Impossible { arm: THREADS };
    Post {
        name: "quasar".to_owned(),
        author: "Jordan Sheinfeld".to_owned(),
        title: "Fibers from out of (user) space – Hands on".to_owned(),
        year: 2018,
        machine: format!("{}; 40 cores of Xeon E5-2630 v4 for the rest", LAPTOP.0),
        claims: vec![
            claim("ring-500", "in a ring of 500", 500, ahead(FIBERS, THREADS, Some(factor))),
            claim("alive-100000", "with 100,000 at once", 100_000, possible),
            claim("alive-100000", "with 100,000 at once", 100_000, impossible),
        ],
        cut: vec![
            "The post also counts switches, faults and cycles of a service under production \
             traffic, which cannot be had here."
                .to_owned(),
        ],
    }
}
