//! The row of the workload, and the checks of the numbers.

use super::{Http, LoadReport};
use crate::{Cost, Figure, Moments, WorkloadError};

impl Http {
    /// The row of a run, in which the servers gave `answers` answers and used `cpu_s` of CPU time.
    ///
    /// # Errors
    /// If the numbers of requests and answers differ.
    pub fn cost(
        &self,
        report: &LoadReport,
        answers: u64,
        cpu_s: f64,
    ) -> Result<Cost, WorkloadError> {
        let LoadReport { requests, time, latencies } = report;
        let expected = self.requests + u64::from(self.connections);
        if *requests != self.requests || answers != expected {
            return Err(WorkloadError::wrong(format!(
                "http went wrong: the load generator counted {requests} of {} requests, and the \
                 server gave {answers} of {expected} answers",
                self.requests
            )));
        }
        let Moments { mean, stdev, min, max } = latencies.moments_us();
        let quantile = |quantile| latencies.quantile_us(quantile);
        let latency_us = vec![
            ("mean", mean),
            ("stdev", stdev),
            ("min", min),
            ("p50", quantile(0.5)),
            ("p99", quantile(0.99)),
            ("max", max),
        ];
        let requests = *requests as f64;
        Ok(Cost {
            time: *time,
            cpu_s,
            memory: None,
            ops: Some(self.requests),
            figures: vec![
                ("requests_per_s", Figure::Number(requests / time.as_secs_f64())),
                ("latency_us", Figure::Group(latency_us)),
                ("cpu_us_per_request", Figure::Number(cpu_s * 1e6 / requests)),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Http, LoadReport};
    use crate::{
        durations::{Durations, Samples, Shards},
        http::WriteMode,
    };

    const HTTP: Http = Http {
        connections: 2,
        requests: 3,
        body: 14,
        work: 0,
        driver: None,
        write: WriteMode::Single,
        port: None,
    };

    fn latencies() -> Durations {
        let shards = Shards::new();
        let mut samples = Samples::new(&shards, 0);
        [1, 2, 6].map(Duration::from_micros).into_iter().for_each(|time| samples.record(time));
        drop(samples);
        shards.merged()
    }

    #[test]
    fn the_figures_are_per_request() {
        let report =
            LoadReport { requests: 3, time: Duration::from_secs(2), latencies: latencies() };
        let cost = HTTP.cost(&report, 5, 0.000_6).unwrap();
        let figures = format!("{:?}", cost.figures);
        assert!(figures.contains(r#"("requests_per_s", Number(1.5))"#), "{figures}");
        assert!(figures.contains(r#"("mean", 3.0)"#), "{figures}");
        assert!(figures.contains(r#"("min", 1.0)"#), "{figures}");
        assert!(figures.contains(r#"("max", 6.0)"#), "{figures}");
        assert!(cost.figures.last().is_some_and(|(name, _)| *name == "cpu_us_per_request"));
    }

    #[test]
    fn lost_and_doubled_answers_are_found() {
        let report =
            LoadReport { requests: 3, time: Duration::from_secs(2), latencies: latencies() };
        for answers in [0, 4, 6] {
            let wrong = HTTP.cost(&report, answers, 0.1).unwrap_err().to_string();
            assert!(wrong.contains(&format!("{answers} of 5 answers")), "{wrong}");
        }
        let short = LoadReport { requests: 2, ..report };
        assert!(HTTP.cost(&short, 5, 0.1).unwrap_err().to_string().contains("2 of 3 requests"));
    }
}
