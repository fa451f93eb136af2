//! The log of a pool. In a process of its own, because there is one logger for all tests.

use std::{
    fmt, io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use ramie::{Runtime, fiber, time::ManualClock};
use ramie_pool::{ManageConnection, Pool};

/// An error whose source has a text of its own, and a source with the same text.
#[derive(Debug)]
struct Refused(io::Error);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server refused")
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[derive(Debug)]
struct Repeats(io::Error);

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Repeats {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

static IS_DOWN: AtomicBool = AtomicBool::new(true);

struct Manager;

impl ManageConnection for Manager {
    type Connection = ();
    type Error = Refused;

    fn connect(&self) -> Result<(), Refused> {
        let cause = || io::Error::other(Repeats(io::Error::other("too many clients")));
        if IS_DOWN.load(SeqCst) { Err(Refused(cause())) } else { Ok(()) }
    }

    fn is_valid(&self, (): &mut ()) -> Result<(), Refused> {
        Ok(())
    }

    fn has_broken(&self, (): &mut ()) -> bool {
        false
    }
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target().starts_with("ramie_pool") {
            LINES.lock().unwrap().push(format!("{} {}", record.level(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Waits until that time, and until the keeper has run; returns the lines logged meanwhile.
fn advance(time: Duration) -> Vec<String> {
    fiber::sleep(time);
    (0..20).for_each(|_| fiber::yield_now());
    std::mem::take(&mut LINES.lock().unwrap())
}

#[test]
fn the_log_has_the_beginning_and_the_end_of_an_outage() {
    log::set_logger(&Lines).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let runtime = Runtime::builder().workers(1).clock(ManualClock::jumping());
    runtime.build().unwrap().run(|| {
        let pool = Pool::builder().min_idle(1).build(Manager);
        let first = advance(Duration::ZERO);
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].starts_with("WARN cannot open an idle connection"), "{first:?}");
        assert!(first[0].ends_with(": the server refused: too many clients"), "{first:?}");

        let later = advance(Duration::from_secs(9 * 60));
        assert!(later.is_empty(), "{later:?}");
        assert!(pool.stats().failed_connects > 10);
        let reminder = advance(Duration::from_secs(2 * 60));
        assert_eq!(reminder.len(), 1, "{reminder:?}");

        IS_DOWN.store(false, SeqCst);
        let failures = pool.stats().failed_connects;
        let end = advance(Duration::from_secs(60));
        let said = format!("WARN opened an idle connection for the pool again, after {failures}");
        assert_eq!(end.len(), 1, "{end:?}");
        assert!(end[0].starts_with(&said), "{end:?}");

        // Nothing has failed before this success.
        let lent = pool.get().unwrap();
        assert_eq!(advance(Duration::from_secs(1)), [""; 0]);
        assert_eq!(pool.stats().connects, 2);
        // A new outage begins with a line of its own.
        IS_DOWN.store(true, SeqCst);
        let _second = pool.get().unwrap();
        assert_eq!(advance(Duration::from_secs(1)).len(), 1);
        drop(lent);

        let program = Pool::builder().min_idle(1).on_connect_error(|_| ()).build(Manager);
        assert_eq!(advance(Duration::from_secs(60)), [""; 0]);
        assert!(program.stats().failed_connects > 1);
        IS_DOWN.store(false, SeqCst);
        drop(pool);
        assert_eq!(advance(Duration::from_secs(60)), [""; 0]);
        assert_eq!(program.stats().idle, 1);
    });
}
