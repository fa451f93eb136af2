//! Logs and spans.

use std::{
    sync::{Mutex, OnceLock},
    time::Duration,
};

use ramie::fiber;
use ramie_tracing::PerFiber;
use tracing_subscriber::{
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use crate::harness::{Kind, Section, Tried};

const FILE: &str = "programs/diagnosis.rs";

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Diagnosis,
        note: "A logger that writes to a file or to stderr blocks the worker for the time of the \
               write; on a slow disk let it write on a thread.",
        ..Section::new("log", FILE, log)
    },
    Section {
        kind: Kind::Diagnosis,
        note: "Events work as they are. Spans that are entered while a fiber waits need \
               `ramie-tracing`, because fibers of a worker interleave on one thread.",
        ..Section::new("tracing", FILE, tracing)
    },
];

/// Keeps the lines in memory.
struct Lines(Mutex<Vec<String>>);

static LINES: OnceLock<Lines> = OnceLock::new();

impl Lines {
    fn get() -> &'static Self {
        LINES.get_or_init(|| Lines(Mutex::default()))
    }

    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let fiber = fiber::current().name().unwrap_or_default().to_owned();
        self.push(format!("{fiber}: {}", record.args()));
    }

    fn flush(&self) {}
}

/// Runs `f` on two fibers that take turns.
fn on_two_fibers(f: fn(&str)) {
    let spawn = |name: &'static str| {
        let builder = fiber::Builder::new().name(name.to_owned());
        builder.spawn_local(move || f(name)).expect("a fiber")
    };
    for joined in [spawn("one"), spawn("two")] {
        joined.join().expect("no panic");
    }
}

fn log() -> Tried {
    log::set_logger(Lines::get()).map_err(|error| error.to_string())?;
    log::set_max_level(log::LevelFilter::Info);
    on_two_fibers(|_| {
        for number in 0..3 {
            log::info!("line {number}");
            fiber::sleep(Duration::from_millis(1));
        }
    });
    let lines = Lines::get().0.lock().unwrap();
    for name in ["one", "two"] {
        let of_fiber = lines.iter().filter_map(|line| line.strip_prefix(name));
        assert_eq!(of_fiber.collect::<Vec<_>>(), [": line 0", ": line 1", ": line 2"]);
    }
    Ok(())
}

/// Notes the span in which each event is.
struct NoteSpans;

impl<S> tracing_subscriber::Layer<S> for NoteSpans
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let span = context.event_span(event).map_or("none", |span| span.name());
        let fiber = fiber::current().name().unwrap_or_default().to_owned();
        Lines::get().push(format!("{fiber} in {span}"));
    }
}

fn tracing() -> Tried {
    let subscriber = PerFiber::new(tracing_subscriber::registry().with(NoteSpans));
    tracing::subscriber::set_global_default(subscriber)?;
    on_two_fibers(|name| {
        let span =
            if name == "one" { tracing::info_span!("one") } else { tracing::info_span!("two") };
        let _entered = span.entered();
        for _ in 0..3 {
            // The other fiber has entered its span meanwhile, on the same thread.
            fiber::sleep(Duration::from_millis(1));
            tracing::info!("an event");
        }
    });
    let lines = Lines::get().0.lock().unwrap();
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line == "one in one" || line == "two in two"), "{lines:?}");
    Ok(())
}
