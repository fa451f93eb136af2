//! Turns figures into lines, and checks the targets.

use std::fmt;

use crate::{
    cases::{Case, Target},
    measure::Figure,
    peers::Peer,
};

/// One target, checked against the figures.
pub struct Verdict {
    target: Target,
    got: f64,
    /// The peer of the comparison, if the target names several.
    best: Option<Peer>,
}

impl Verdict {
    pub fn is_met(&self) -> bool {
        self.got <= self.limit()
    }

    fn limit(&self) -> f64 {
        match self.target {
            Target::Between(_, _, limit)
            | Target::Best(_, _, limit)
            | Target::Ratio(_, limit)
            | Target::Enters(_, limit)
            | Target::Nanoseconds(limit)
            | Target::Bytes(limit) => limit,
        }
    }

    /// Absolute targets depend on the machine; ratios hardly do.
    fn kind(&self) -> &'static str {
        match self.target {
            Target::Ratio(..) | Target::Between(..) | Target::Best(..) | Target::Enters(..) => {
                "ratio"
            }
            Target::Nanoseconds(_) | Target::Bytes(_) => "absolute",
        }
    }

    fn unit(&self) -> String {
        match self.target {
            Target::Ratio(peer, _) => format!("x {}", peer.name()),
            Target::Between(ours, peer, _) => format!("{} x {}", ours.name(), peer.name()),
            Target::Best(ours, ..) => {
                let best = self.best.map_or("none", Peer::name);
                format!("{} x {best}, the best kept apart", ours.name())
            }
            Target::Enters(peer, _) => format!("x the enters of {}", peer.name()),
            Target::Nanoseconds(_) => "ns".to_owned(),
            Target::Bytes(_) => "bytes".to_owned(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, unit, limit) = (self.kind(), self.unit(), self.limit());
        write!(f, "{kind}: {:.2} {unit}, target {limit}: ", self.got)?;
        match self.is_met() {
            true => f.write_str("met"),
            false => write!(f, "MISSED by {:.0} %", (self.got / limit - 1.0) * 100.0),
        }
    }
}

fn of(figures: &[Figure], peer: Peer) -> Option<Figure> {
    figures.iter().copied().find(|figure| figure.peer == peer)
}

fn fastest(figures: &[Figure], peers: &[Peer]) -> Option<Peer> {
    let theirs = figures.iter().filter(|figure| peers.contains(&figure.peer));
    theirs.min_by(|one, other| one.ns_per_op.total_cmp(&other.ns_per_op)).map(|best| best.peer)
}

pub fn judge(case: &Case, figures: &[Figure]) -> Vec<Verdict> {
    let Some(ours) = of(figures, Peer::Ramie) else { return Vec::new() };
    let judge_one = |target: &Target| {
        let mut best = None;
        let got = match *target {
            Target::Ratio(peer, _) => ours.ns_per_op / of(figures, peer)?.ns_per_op,
            Target::Between(ours, peer, _) => {
                of(figures, ours)?.ns_per_op / of(figures, peer)?.ns_per_op
            }
            Target::Enters(peer, _) => ours.enters_per_1000 / of(figures, peer)?.enters_per_1000,
            Target::Best(ours, peers, _) => {
                best = fastest(figures, peers);
                of(figures, ours)?.ns_per_op / of(figures, best?)?.ns_per_op
            }
            Target::Nanoseconds(_) => ours.ns_per_op,
            Target::Bytes(_) => ours.bytes_per_op,
        };
        Some(Verdict { target: *target, got, best })
    };
    case.targets.iter().filter_map(judge_one).collect()
}

pub fn print(case: &Case, figures: &[Figure], verdicts: &[Verdict]) {
    println!("{}", case.name);
    let ours = of(figures, Peer::Ramie);
    for figure in figures {
        let bytes = match figure.bytes_per_op {
            0.0 => String::new(),
            bytes => format!("{bytes:>10.0} bytes"),
        };
        let ratio = ours.map_or(f64::NAN, |ours| ours.ns_per_op / figure.ns_per_op);
        let note = match ours.is_some_and(|ours| ours.workload != figure.workload) {
            true => format!("  (ran {})", figure.workload),
            false => figure.peer.note(figure.workload).to_owned(),
        };
        let (name, ns, (low, high)) = (figure.peer.name(), figure.ns_per_op, figure.ns_range);
        let range = format!("({low:.2} to {high:.2})");
        let enters = match figure.enters_per_1000 {
            0.0 => String::new(),
            enters => format!("{enters:>8.2} enters per 1,000 ops"),
        };
        println!(
            "  {name:<16}{ns:>10.2} ns {range:<22} ramie takes {ratio:>5.2} x{bytes}{enters}{note}"
        );
    }
    for verdict in verdicts {
        println!("  -> {verdict}");
    }
}

pub fn print_json(case: &Case, figures: &[Figure], verdicts: &[Verdict]) {
    for figure in figures {
        println!(
            concat!(
                r#"{{"case":"{}","peer":"{}","ran":"{}","per_op_ns":{:.3},"#,
                r#""min_ns":{:.3},"max_ns":{:.3},"bytes_per_op":{:.1},"#,
                r#""enters_per_1000_ops":{:.3}}}"#
            ),
            case.name,
            figure.peer.name(),
            figure.workload,
            figure.ns_per_op,
            figure.ns_range.0,
            figure.ns_range.1,
            figure.bytes_per_op,
            figure.enters_per_1000
        );
    }
    for verdict in verdicts {
        println!(
            r#"{{"case":"{}","kind":"{}","got":{:.3},"unit":"{}","target":{},"met":{}}}"#,
            case.name,
            verdict.kind(),
            verdict.got,
            verdict.unit(),
            verdict.limit(),
            verdict.is_met()
        );
    }
}
