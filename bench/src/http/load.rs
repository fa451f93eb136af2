//! One run of wrk, and its figures.

use std::{process::Command, time::Duration};

/// The command line of wrk: one thread, pinned.
pub struct Load {
    pub cpu: usize,
    pub connections: u16,
    pub seconds: u16,
}

/// The figures of wrk.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub requests: u64,
    pub requests_per_second: f64,
    /// The latency that 99 % of the requests did not exceed.
    pub p99_us: f64,
}

pub fn has_wrk() -> bool {
    // Without arguments it prints its usage and fails; only whether it starts matters here.
    Command::new("wrk").arg("--version").output().is_ok()
}

impl Load {
    /// Requests a path of a server; an error of any connection is an error.
    pub fn run(&self, address: &str, path: &str, time: Duration) -> Result<Seen, String> {
        let output = Command::new("taskset")
            .args(["-c", &self.cpu.to_string(), "wrk", "-t1", "--latency"])
            .arg(format!("-c{}", self.connections))
            .arg(format!("-d{}", time.as_secs()))
            .arg(format!("http://{address}{path}"))
            .output()
            .map_err(|error| format!("cannot start wrk by taskset: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match output.status.success() {
            true => parse(&text),
            false => Err(format!("wrk: {}{}", text, String::from_utf8_lossy(&output.stderr))),
        }
    }
}

fn parse(text: &str) -> Result<Seen, String> {
    for complaint in ["Socket errors", "Non-2xx"] {
        if let Some(line) = text.lines().find(|line| line.contains(complaint)) {
            return Err(format!("wrk reports {}", line.trim()));
        }
    }
    let unclear = || format!("cannot parse the output of wrk: {text}");
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "));
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    let requests = requests.and_then(|(count, _)| count.parse().ok()).ok_or_else(unclear)?;
    let rate = rate.and_then(|rate| rate.trim().parse().ok()).ok_or_else(unclear)?;
    let p99 = text.lines().find_map(|line| line.trim().strip_prefix("99%"));
    let p99_us = p99.and_then(microseconds).ok_or_else(unclear)?;
    match requests {
        0 => Err("wrk made no request".to_owned()),
        _ => Ok(Seen { requests, requests_per_second: rate, p99_us }),
    }
}

/// Parses a time of wrk, such as `3.21ms`.
fn microseconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(text[..unit].parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::{Seen, parse};

    const GOOD: &str = "Running 1s test @ http://127.0.0.1:80/\n     99%    3.21ms\n  \
                        4200 requests in 1.00s, 1.0MB read\nRequests/sec:   4199.50\n\
                        Transfer/sec:      1.00MB\n";

    #[test]
    fn figures_are_read() {
        let seen = Seen { requests: 4200, requests_per_second: 4199.5, p99_us: 3210.0 };
        assert_eq!(parse(GOOD), Ok(seen));
        for (text, us) in [("99%  87.00us", 87.0), ("99%    1.50s", 1.5e6)] {
            let other = GOOD.replace("99%    3.21ms", text);
            assert_eq!(parse(&other).map(|seen| seen.p99_us), Ok(us));
        }
        assert!(parse(&GOOD.replace("3.21ms", "3.21m")).is_err());
    }

    #[test]
    fn errors_of_connections_and_answers_are_errors() {
        let errors = "  Socket errors: connect 0, read 3, write 0, timeout 0\n";
        assert!(parse(&format!("{GOOD}{errors}")).is_err());
        assert!(parse(&format!("{GOOD}  Non-2xx or 3xx responses: 9\n")).is_err());
        assert!(parse("").is_err());
    }
}
