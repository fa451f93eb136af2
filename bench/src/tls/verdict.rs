//! The table of the servers, and whether `ramie-http` meets its targets.
//!
//! A memory pipe does not need the kernel, whose TCP takes most of the time of a byte. So the
//! target refers to the CPU time outside the kernel. The whole is printed as well, and that of
//! `threads`, which pays for the same TCP and for a thread for each connection.

use std::time::Duration;

use crate::measure::median;

/// Most kernels divide the time of a process into both parts by samples, 100 to 1,000 a second.
/// Less than this time outside the kernel, in all rounds, is not judged.
const ENOUGH: Duration = Duration::from_secs(3);

/// A share of the rate of rustls on a memory pipe, per second of CPU time outside the kernel.
const TARGET: f64 = 0.9;

/// The CPU time of one handshake, or of one MiB, in us.
#[derive(Clone, Copy)]
pub struct Cost {
    whole: f64,
    /// The part outside the kernel.
    user: f64,
    /// The time in which that part was measured.
    time: Duration,
}

impl Cost {
    pub fn new(count: u64, whole: Duration, user: Duration) -> Self {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
        Cost { whole: each(whole), user: each(user), time: user }
    }

    /// The medians of both, and the sum of the times.
    fn median(rows: &[Row], cost: impl Fn(&Row) -> Cost) -> Cost {
        Cost {
            whole: median(rows, |row| cost(row).whole),
            user: median(rows, |row| cost(row).user),
            time: rows.iter().map(|row| cost(row).time).sum(),
        }
    }
}

/// One measurement of a server.
pub struct Row {
    pub handshakes: Cost,
    pub mib: Cost,
}

/// A server's medians.
pub struct Figure {
    name: String,
    handshakes: Cost,
    mib: Cost,
    /// The bytes of an idle connection, and the time in which all of them have then answered.
    pub idle: Option<(usize, Duration)>,
}

impl Figure {
    pub fn median(name: String, rows: &[Row]) -> Self {
        Figure {
            name,
            handshakes: Cost::median(rows, |row| row.handshakes),
            mib: Cost::median(rows, |row| row.mib),
            idle: None,
        }
    }
}

/// Prints the table and the verdicts. Returns whether all targets are met.
pub fn print(figures: &[Figure]) -> bool {
    println!("CPU time of the server, of which `user` is outside the kernel:");
    println!(
        "{:<12}{:>14}{:>10}{:>14}{:>10}{:>22}{:>20}",
        "", "us/handshake", "user", "us/MiB", "user", "bytes/idle connection", "then all answered"
    );
    for Figure { name, handshakes, mib, idle } in figures {
        let (bytes, answered) = idle.map_or(("-".to_owned(), "-".to_owned()), |(bytes, time)| {
            (bytes.to_string(), format!("{time:.0?}"))
        });
        println!(
            "{name:<12}{:>14.1}{:>10.1}{:>14.1}{:>10.1}{bytes:>22}{answered:>20}",
            handshakes.whole, handshakes.user, mib.whole, mib.user
        );
    }
    let verdicts = judge(figures);
    for verdict in &verdicts {
        println!("  -> {}", verdict.text());
    }
    verdicts.iter().all(Verdict::is_met)
}

/// The rate of `ramie-http` per second of CPU time, as a share of the limit.
#[derive(Debug, PartialEq)]
struct Verdict {
    unit: &'static str,
    user: f64,
    whole: f64,
    /// The whole of rustls on blocking sockets, which shows the cost of the kernel's TCP.
    threads: f64,
    has_enough: bool,
}

fn judge(figures: &[Figure]) -> Vec<Verdict> {
    let find = |name: &str| figures.iter().find(|figure| figure.name == name);
    let (Some(memory), Some(threads), Some(ours)) =
        (find("memory"), find("threads"), find("ramie-http"))
    else {
        return Vec::new();
    };
    let verdict = |unit, cost: fn(&Figure) -> Cost| Verdict {
        unit,
        user: cost(memory).user / cost(ours).user,
        whole: cost(memory).whole / cost(ours).whole,
        threads: cost(memory).whole / cost(threads).whole,
        has_enough: cost(ours).time >= ENOUGH,
    };
    vec![verdict("handshakes", |figure| figure.handshakes), verdict("bytes", |figure| figure.mib)]
}

impl Verdict {
    fn is_met(&self) -> bool {
        self.has_enough && self.user >= TARGET
    }

    fn text(&self) -> String {
        let Verdict { unit, user, whole, threads, has_enough } = self;
        let word = match (has_enough, self.is_met()) {
            (false, _) => "NOT JUDGED, because the time was too short: raise `--seconds`",
            (true, true) => "met",
            (true, false) => "MISSED",
        };
        format!(
            "ramie-http: {unit} per CPU second, as a share of `memory`: outside the kernel \
             {user:.2}, target {TARGET:.2}: {word}; with the kernel {whole:.2}, `threads` \
             {threads:.2}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Cost, Figure, Row, Verdict, judge};

    fn figure(name: &str, whole: u64, user: u64) -> Figure {
        let [whole, user] = [whole, user].map(Duration::from_secs);
        let cost = Cost::new(1_000_000, whole, user);
        Figure::median(name.to_owned(), &[Row { handshakes: cost, mib: cost }])
    }

    fn with(whole: u64, user: u64) -> Vec<Verdict> {
        let peers = [figure("memory", 90, 90), figure("threads", 180, 90)];
        judge(&peers.into_iter().chain([figure("ramie-http", whole, user)]).collect::<Vec<_>>())
    }

    #[test]
    fn the_part_outside_the_kernel_is_judged() {
        let met = with(120, 99);
        assert!(met.len() == 2 && met.iter().all(Verdict::is_met));
        let missed = with(120, 120);
        assert!(!missed.iter().any(Verdict::is_met));
        let text =
            "outside the kernel 0.75, target 0.90: MISSED; with the kernel 0.75, `threads` 0.50";
        assert!(missed[0].text().ends_with(text), "{}", missed[0].text());
    }

    #[test]
    fn few_samples_are_not_judged() {
        let short = with(120, 2);
        assert!(!short.iter().any(Verdict::is_met));
        assert!(short[0].text().contains("NOT JUDGED"), "{}", short[0].text());
    }

    #[test]
    fn a_cost_is_that_of_one_thing() {
        let cost = Cost::new(4, Duration::from_micros(10), Duration::from_micros(2));
        assert_eq!((cost.whole, cost.user), (2.5, 0.5));
    }
}
