//! What a recorder of the crate `metrics` gets.

use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use ramie::{fiber, metrics::snapshot};
use ramie_metrics::Publisher;

fn sleep(times: usize) {
    (0..times).for_each(|_| fiber::sleep(Duration::from_millis(1)));
}

/// One test, because the recorder and the figures are those of the process.
#[test]
fn counters_gauges_and_new_durations_reach_the_recorder() {
    let recorder = DebuggingRecorder::new();
    let received = recorder.snapshotter();
    recorder.install().expect("no other test installs one");
    ramie::run(|| {
        let mut publisher = Publisher::new();
        sleep(10);
        publisher.publish();
        let first = received.snapshot().into_vec();
        let find = |name: &str| {
            let with_name = first.iter().find(|(key, ..)| key.key().name() == name);
            with_name.unwrap_or_else(|| panic!("there is no {name}"))
        };
        let (.., help, value) = find("ramie_strands_spawned_total");
        assert_eq!(help.as_deref(), Some("Strands spawned."));
        assert!(matches!(value, DebugValue::Counter(1..)), "{value:?}");
        let (.., strands) = find("ramie_strands");
        assert!(matches!(strands, DebugValue::Gauge(alive) if alive.0 >= 1.0), "{strands:?}");
        let (key, ..) = find("ramie_worker_fibers");
        assert_eq!(key.key().labels().next().map(metrics::Label::key), Some("worker"));
        let DebugValue::Histogram(late) = &find("ramie_timer_lateness_seconds").3 else {
            panic!("the lateness of timers is no histogram")
        };
        assert_eq!(late.len() as u64, snapshot().durations.timer_lateness.count());
        // A snapshot of this recorder takes the durations away, so these are new.
        sleep(5);
        publisher.publish();
        let second = received.snapshot().into_vec();
        let late = second.iter().find_map(|(key, _, _, value)| match value {
            DebugValue::Histogram(late) if key.key().name() == "ramie_timer_lateness_seconds" => {
                Some(late.len())
            }
            _ => None,
        });
        assert_eq!(late, Some(5));
    });
}
