//! Calls that are cancelled: before they wait, while they wait, and a strand that waits for it.

use std::{
    io::Result,
    time::{Duration, Instant},
};

use ramie::{
    cancel::{self, check_cancelled, is_cancelled, with_timeout},
    fiber,
};

pub const SHORT: Duration = Duration::from_millis(2);
/// Longer than any test.
pub const LONG: Duration = Duration::from_secs(3600);

/// Sleeps until it is cancelled, and reports that.
pub fn until_cancelled() -> Result<()> {
    while check_cancelled().is_ok() {
        fiber::sleep(LONG);
    }
    Err(check_cancelled().unwrap_err().into())
}

/// The call, in a scope that is cancelled already, fails at once.
#[track_caller]
pub fn refused<T>(name: &str, call: impl FnOnce() -> Result<T>) {
    let result = cancel::scope(|scope| {
        scope.cancel();
        call()
    });
    match result {
        Ok(_) => panic!("{name} is no cancel point"),
        Err(error) => assert!(is_cancelled(&error), "{name}: {error}"),
    }
}

/// The call, whose event never comes, returns when it is cancelled, by a limit and by another
/// strand.
#[track_caller]
pub fn ended<T>(name: &str, mut call: impl FnMut() -> Result<T>) {
    let started = Instant::now();
    let outcome = with_timeout(SHORT, &mut call);
    let error = outcome.err().unwrap_or_else(|| panic!("{name} did not wait")).into_value();
    let error = error.err().unwrap_or_else(|| panic!("{name} is not ended by a limit"));
    assert!(is_cancelled(&error), "{name}: {error}");
    let outcome = cancel::scope(|scope| {
        let handle = scope.handle();
        let canceller = fiber::spawn(move || {
            fiber::sleep(SHORT);
            handle.cancel()
        });
        let outcome = call();
        assert!(canceller.join().unwrap());
        outcome
    });
    let error = outcome.err().unwrap_or_else(|| panic!("{name} is not ended by a request"));
    assert!(is_cancelled(&error), "{name}: {error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{name} was slow to return");
    refused(name, call);
}
