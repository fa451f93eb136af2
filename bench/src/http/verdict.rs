//! The table of the servers, and whether Ramie's meet their targets.

use super::{Kind, ServerFigure};

/// The limit of a server, in us of CPU per request, relative to a bare loop.
enum Bound {
    /// At most this much more than the best bare ring.
    OverRing(f64),
    /// At most this multiple of the bare epoll set.
    TimesEpoll(f64),
}

const TARGETS: [(Kind, Bound); 3] = [
    (Kind::Ramie, Bound::OverRing(0.3)),
    (Kind::RamieServe, Bound::OverRing(1.0)),
    (Kind::RamiePoll, Bound::TimesEpoll(1.1)),
];

/// Returns whether all targets are met whose servers were measured.
pub fn print(figures: &[ServerFigure]) -> bool {
    println!(
        "{:<22}{:>12}{:>22}{:>12}",
        "server", "requests/s", "CPU us per request", "of it user"
    );
    for ServerFigure { kind, requests_per_second, cpu, user } in figures {
        println!("{:<22}{requests_per_second:>12.0}{cpu:>22.2}{user:>12.2}", kind.name());
    }
    let mut all_met = true;
    for (kind, bound) in &TARGETS {
        let cost = |wanted: &dyn Fn(Kind) -> bool| {
            let costs = figures.iter().filter(|figure| wanted(figure.kind));
            costs.map(|figure| figure.cpu).min_by(f64::total_cmp)
        };
        let (limit, words) = match bound {
            Bound::OverRing(more) => (
                cost(&Kind::is_raw_ring).map(|limit| limit + more),
                format!("the best bare ring + {more} us"),
            ),
            Bound::TimesEpoll(times) => (
                cost(&|kind| kind == Kind::RawEpoll).map(|limit| limit * times),
                format!("{times} times the bare epoll set"),
            ),
        };
        let (Some(limit), Some(ours)) = (limit, cost(&|of| of == *kind)) else { continue };
        let verdict = if ours <= limit { "met" } else { "MISSED" };
        println!("  -> {}: {ours:.2} us, target {limit:.2} ({words}): {verdict}", kind.name());
        all_met &= ours <= limit;
    }
    all_met
}
