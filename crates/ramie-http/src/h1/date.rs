//! The field Date, formatted once a second.

use std::{
    cell::RefCell,
    io::Write,
    ops::Range,
    time::{Duration, SystemTime},
};

use httpdate::HttpDate;
use rustix::time::{ClockId, clock_gettime};

/// The field with some date, behind the end of the field before it and before the name of the field
/// that follows it in most heads.
const USUAL: &[u8; 55] = b"\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: ";
const FIELD_AT: Range<usize> = 2..39;
const DATE_AT: Range<usize> = 8..37;

/// The field of one second.
struct OfSecond {
    second: i64,
    usual: [u8; USUAL.len()],
}

thread_local! {
    /// The field of the last second. Nothing suspends while it is borrowed.
    static LAST: RefCell<OfSecond> =
        const { RefCell::new(OfSecond { second: i64::MIN, usual: *USUAL }) };
}

/// Appends the field Date of now, as RFC 9110, section 5.6.7, writes it, with its line end.
pub(crate) fn append_field_of_now(out: &mut Vec<u8>) {
    with_now(|now| out.extend_from_slice(&now.usual[FIELD_AT]));
}

/// Appends the end of a field, the field Date, and the beginning of a Content-Length: at once,
/// because each part that is appended costs a check for room.
#[inline]
pub(crate) fn append_amid_usual(out: &mut Vec<u8>) {
    with_now(|now| out.extend_from_slice(&now.usual));
}

#[inline]
fn with_now(f: impl FnOnce(&OfSecond)) {
    // It lags by some milliseconds and costs a few instructions.
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    LAST.with_borrow_mut(|last| {
        if last.second != now {
            last.change_to(now);
        }
        f(last);
    });
}

impl OfSecond {
    #[cold]
    fn change_to(&mut self, second: i64) {
        let since = Duration::from_secs(u64::try_from(second).unwrap_or(0));
        let date = HttpDate::from(SystemTime::UNIX_EPOCH + since);
        // A date has this length up to the year 9999, where httpdate ends.
        let _ = write!(&mut self.usual[DATE_AT], "{date}");
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_date_is_that_of_now() {
        for _ in 0..2 {
            let mut text = Vec::new();
            super::append_field_of_now(&mut text);
            let text = str::from_utf8(&text).unwrap();
            let date = text.strip_prefix("date: ").and_then(|text| text.strip_suffix("\r\n"));
            let date = httpdate::parse_http_date(date.unwrap()).unwrap();
            let age = std::time::SystemTime::now().duration_since(date).unwrap();
            assert!(age.as_secs() < 5, "{age:?}");
        }
    }
}
