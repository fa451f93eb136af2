//! The table of the servers, and whether Ramie's meet their targets.

use super::{Kind, ServerFigure};

/// The limit of a server, in us of CPU per request, relative to other servers of the same run.
enum Bound {
    /// At most this much more than the best bare ring.
    OverRing(f64),
    /// At most this multiple of the bare epoll set.
    TimesEpoll(f64),
    /// Not above the best of these.
    Best(&'static [Kind]),
    /// The part outside the kernel is not above that of this server.
    UserPart(Kind),
    /// Two workers serve at least this multiple of the requests that the one worker of this server
    /// serves, if each has a CPU. The CPU time of a request tells this without three CPUs.
    TwoWorkers(f64, Kind),
}

const HTTP_PEERS: &[Kind] = &[Kind::Hyper, Kind::Axum, Kind::Actix, Kind::GoNetHttp];

const TARGETS: [(Kind, Bound); 7] = [
    (Kind::Ramie, Bound::OverRing(0.3)),
    (Kind::RamieServe, Bound::OverRing(1.0)),
    (Kind::RamieHttpFull, Bound::OverRing(1.0)),
    (Kind::RamieHttp, Bound::Best(HTTP_PEERS)),
    (Kind::RamieHttp, Bound::UserPart(Kind::Tokio)),
    (Kind::RamieHttp2, Bound::TwoWorkers(1.8, Kind::RamieHttp)),
    (Kind::RamiePoll, Bound::TimesEpoll(1.1)),
];

/// One target, checked against the figures.
#[derive(Debug, PartialEq)]
struct Verdict {
    kind: Kind,
    /// In us.
    ours: f64,
    limit: f64,
    words: String,
}

impl Verdict {
    fn is_met(&self) -> bool {
        self.ours <= self.limit
    }
}

/// Checks the targets whose servers were all measured; of several peers, one is enough.
fn judge(figures: &[ServerFigure]) -> Vec<Verdict> {
    let verdict = |(kind, bound): &(Kind, Bound)| {
        let ours = find(figures, *kind)?;
        let (limit, words) = limit(bound, figures)?;
        let ours = if matches!(bound, Bound::UserPart(_)) { ours.user } else { ours.cpu };
        Some(Verdict { kind: *kind, ours, limit, words })
    };
    TARGETS.iter().filter_map(verdict).collect()
}

/// The limit in us, and its meaning.
fn limit(bound: &Bound, figures: &[ServerFigure]) -> Option<(f64, String)> {
    Some(match bound {
        Bound::OverRing(more) => (
            best(figures, Kind::is_raw_ring)?.cpu + more,
            format!("the best bare ring + {more} us"),
        ),
        Bound::TimesEpoll(times) => (
            find(figures, Kind::RawEpoll)?.cpu * times,
            format!("{times} times the bare epoll set"),
        ),
        Bound::Best(kinds) => {
            let best = best(figures, |kind| kinds.contains(&kind))?;
            (best.cpu, format!("{}, the best of its peers", best.kind.name()))
        }
        Bound::UserPart(kind) => {
            (find(figures, *kind)?.user, format!("the user part of {}", kind.name()))
        }
        Bound::TwoWorkers(times, one) => (
            find(figures, *one)?.cpu * 2.0 / times,
            format!("two CPUs serve {times} times the requests of {} on one", one.name()),
        ),
    })
}

fn find(figures: &[ServerFigure], kind: Kind) -> Option<&ServerFigure> {
    figures.iter().find(|figure| figure.kind == kind)
}

/// The one with the least CPU time per request.
fn best(figures: &[ServerFigure], wanted: impl Fn(Kind) -> bool) -> Option<&ServerFigure> {
    let wanted = figures.iter().filter(|figure| wanted(figure.kind));
    wanted.min_by(|one, other| one.cpu.total_cmp(&other.cpu))
}

/// Returns whether all targets are met whose servers were measured.
pub fn print(figures: &[ServerFigure]) -> bool {
    println!(
        "{:<22}{:>12}{:>22}{:>12}",
        "server", "requests/s", "CPU us per request", "of it user"
    );
    for ServerFigure { kind, requests_per_second, cpu, user } in figures {
        println!("{:<22}{requests_per_second:>12.0}{cpu:>22.2}{user:>12.2}", kind.name());
    }
    let verdicts = judge(figures);
    for verdict @ Verdict { kind, ours, limit, words } in &verdicts {
        let outcome = if verdict.is_met() { "met" } else { "MISSED" };
        println!("  -> {}: {ours:.2} us, target {limit:.2} ({words}): {outcome}", kind.name());
    }
    verdicts.iter().all(Verdict::is_met)
}

#[cfg(test)]
mod tests {
    use super::{Kind, ServerFigure, judge};

    fn figure(kind: Kind, cpu: f64, user: f64) -> ServerFigure {
        ServerFigure { kind, requests_per_second: 1e6 / cpu, cpu, user }
    }

    /// The server, the limit, and whether it is met.
    fn judged(figures: &[ServerFigure]) -> Vec<(Kind, f64, bool)> {
        let verdicts = judge(figures);
        let short =
            |of: &super::Verdict| (of.kind, (of.limit * 100.0).round() / 100.0, of.is_met());
        verdicts.iter().map(short).collect()
    }

    #[test]
    fn a_target_relative_to_rings_refers_to_the_best() {
        let rings = [(Kind::RawSingle, 5.0), (Kind::RawMultishotDirect, 4.0)];
        for (full, is_met) in [(4.9, true), (5.1, false)] {
            let mut figures: Vec<_> = rings.map(|(kind, cpu)| figure(kind, cpu, 1.0)).into();
            figures.push(figure(Kind::RamieHttpFull, full, 2.0));
            assert_eq!(judged(&figures), [(Kind::RamieHttpFull, 5.0, is_met)]);
        }
    }

    #[test]
    fn a_target_relative_to_peers_refers_to_the_best_that_was_measured() {
        let ours = figure(Kind::RamieHttp, 6.0, 1.0);
        let hyper = figure(Kind::Hyper, 7.0, 3.0);
        assert_eq!(judged(&[ours.clone(), hyper.clone()]), [(Kind::RamieHttp, 7.0, true)]);
        let actix = figure(Kind::Actix, 5.5, 2.0);
        assert_eq!(judged(&[ours.clone(), hyper, actix]), [(Kind::RamieHttp, 5.5, false)]);
        // nginx is for comparison only.
        assert_eq!(judged(&[ours, figure(Kind::Nginx, 4.0, 1.0)]), []);
    }

    #[test]
    fn the_user_part_is_compared_with_a_user_part() {
        let tokio = figure(Kind::Tokio, 4.0, 1.2);
        for (user, is_met) in [(1.1, true), (1.3, false)] {
            let ours = figure(Kind::RamieHttp, 9.0, user);
            assert_eq!(judged(&[tokio.clone(), ours]), [(Kind::RamieHttp, 1.2, is_met)]);
        }
    }

    #[test]
    fn two_workers_may_cost_a_ninth_more_per_request() {
        let one = figure(Kind::RamieHttp, 4.5, 1.0);
        for (cpu, is_met) in [(4.99, true), (5.01, false)] {
            let two = figure(Kind::RamieHttp2, cpu, 1.0);
            assert_eq!(judged(&[one.clone(), two]), [(Kind::RamieHttp2, 5.0, is_met)]);
        }
    }

    #[test]
    fn a_target_without_its_reference_is_not_judged() {
        let ours = [Kind::Ramie, Kind::RamiePoll, Kind::RamieHttp, Kind::RamieHttpFull];
        assert_eq!(judged(&ours.map(|kind| figure(kind, 1.0, 1.0))), []);
    }
}
