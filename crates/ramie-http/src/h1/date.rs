//! The field Date, formatted once a second.

use std::{
    cell::Cell,
    io::Write,
    time::{Duration, SystemTime},
};

use httpdate::HttpDate;
use rustix::time::{ClockId, clock_gettime};

/// The length of `Sun, 06 Nov 1994 08:49:37 GMT`.
const LENGTH: usize = 29;

thread_local! {
    /// The last second, and its text. Nothing suspends while the cell is used.
    static LAST: Cell<(i64, [u8; LENGTH])> = const { Cell::new((i64::MIN, [0; LENGTH])) };
}

/// Appends the time of now, as RFC 9110, section 5.6.7, writes it.
pub(crate) fn append_now(out: &mut Vec<u8>) {
    // It lags by some milliseconds and costs a few instructions.
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    let (second, mut text) = LAST.get();
    if second != now {
        let since = Duration::from_secs(u64::try_from(now).unwrap_or(0));
        let date = HttpDate::from(SystemTime::UNIX_EPOCH + since);
        // A date has this length up to the year 9999, where httpdate ends.
        let _ = write!(&mut text[..], "{date}");
        LAST.set((now, text));
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_date_is_that_of_now() {
        for _ in 0..2 {
            let mut text = Vec::new();
            super::append_now(&mut text);
            let date = httpdate::parse_http_date(str::from_utf8(&text).unwrap()).unwrap();
            let age = std::time::SystemTime::now().duration_since(date).unwrap();
            assert!(age.as_secs() < 5, "{age:?}");
        }
    }
}
