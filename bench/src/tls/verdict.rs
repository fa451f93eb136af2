//! The table of the servers, and whether `ramie-http` meets its targets.
//!
//! A memory pipe has no kernel, whose TCP takes most of the time of a byte. So the target refers to
//! the CPU time outside the kernel; the whole is printed, and that of `threads`, the least that a
//! server over blocking sockets does.

use std::time::Duration;

use crate::measure::median;

/// A share of the rate of rustls on a memory pipe, per second of CPU time outside the kernel.
const TARGET: f64 = 0.9;

/// The CPU time of one handshake, or of one MiB, in us.
#[derive(Clone, Copy)]
pub struct Cost {
    whole: f64,
    /// The part outside the kernel.
    user: f64,
}

impl Cost {
    pub fn new(count: u64, whole: Duration, user: Duration) -> Self {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
        Cost { whole: each(whole), user: each(user) }
    }

    /// The medians of both.
    fn median(rows: &[Row], cost: impl Fn(&Row) -> Cost) -> Cost {
        Cost {
            whole: median(rows, |row| cost(row).whole),
            user: median(rows, |row| cost(row).user),
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
    pub idle_bytes: Option<usize>,
}

impl Figure {
    pub fn median(name: String, rows: &[Row]) -> Self {
        Figure {
            name,
            handshakes: Cost::median(rows, |row| row.handshakes),
            mib: Cost::median(rows, |row| row.mib),
            idle_bytes: None,
        }
    }
}

/// Prints the table and the verdicts. Returns whether all targets are met.
pub fn print(figures: &[Figure]) -> bool {
    println!(
        "{:<12}{:>18}{:>14}{:>18}{:>14}{:>18}",
        "", "us a handshake", "outside the", "us a MiB", "outside the", "bytes an idle"
    );
    println!("{:<12}{:>18}{:>14}{:>18}{:>14}{:>18}", "", "", "kernel", "", "kernel", "connection");
    for Figure { name, handshakes, mib, idle_bytes } in figures {
        let idle = idle_bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        println!(
            "{name:<12}{:>18.1}{:>14.1}{:>18.1}{:>14.1}{idle:>18}",
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
    };
    vec![verdict("handshakes", |figure| figure.handshakes), verdict("bytes", |figure| figure.mib)]
}

impl Verdict {
    fn is_met(&self) -> bool {
        self.user >= TARGET
    }

    fn text(&self) -> String {
        let Verdict { unit, user, whole, threads } = self;
        let word = if self.is_met() { "met" } else { "MISSED" };
        format!(
            "ramie-http: {unit} per CPU second, of rustls on a memory pipe: outside the kernel \
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
        let cost = Cost::new(1, Duration::from_micros(whole), Duration::from_micros(user));
        Figure::median(name.to_owned(), &[Row { handshakes: cost, mib: cost }])
    }

    #[test]
    fn the_part_outside_the_kernel_is_judged() {
        let with = |user| {
            let peers = [figure("memory", 90, 90), figure("threads", 180, 90)];
            judge(&peers.into_iter().chain([figure("ramie-http", 120, user)]).collect::<Vec<_>>())
        };
        let met = with(99);
        assert!(met.len() == 2 && met.iter().all(Verdict::is_met));
        let missed = with(120);
        assert!(!missed.iter().any(Verdict::is_met));
        let text =
            "outside the kernel 0.75, target 0.90: MISSED; with the kernel 0.75, `threads` 0.50";
        assert!(missed[0].text().ends_with(text), "{}", missed[0].text());
    }

    #[test]
    fn a_cost_is_that_of_one_thing() {
        let cost = Cost::new(4, Duration::from_micros(10), Duration::from_micros(2));
        assert_eq!((cost.whole, cost.user), (2.5, 0.5));
    }
}
