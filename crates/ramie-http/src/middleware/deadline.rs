//! Time limits that clients set.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use ramie::time::Instant;

use crate::{
    extract::Rejection,
    request::{Parts, Request},
    response::{IntoResponse, Response},
    router::Next,
};

const TIMEOUT_MS: HeaderName = HeaderName::from_static("x-request-timeout-ms");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Makes middleware that limits the time of handlers.
///
/// The limit is `longest`, or less if the client sends one in `x-request-timeout-ms` (a number of
/// milliseconds) or in `grpc-timeout` (a number of up to eight digits and a unit: `H`, `M`, `S`,
/// `m`, `u` or `n`). Of two headers the shorter limit counts. A malformed one is 400.
///
/// When the limit has passed, the waits of the handler fail with an error of kind `TimedOut`, and
/// the client gets 504 instead of the handler's response. A handler that waits for nothing is not
/// interrupted. A body that is written while it is sent, such as server-sent events, has no limit.
///
/// `Limits::request_timeout` of the server still applies; [`request_timeout`] replaces it.
///
/// [`request_timeout`]: super::request_timeout()
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie_http::{Request, Router, get, middleware};
///
/// let slow = || ramie::fiber::sleep(Duration::from_secs(60));
/// let router =
///     Router::new().route("/", get(slow)).layer(middleware::deadline(Duration::from_secs(10)));
/// let request = Request::get("/").with_header("x-request-timeout-ms", "5");
/// assert_eq!(ramie::run(|| router.call(request)).status(), 504);
/// ```
pub fn deadline(
    longest: Duration,
) -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
    move |request, next| match timeout_of(&request) {
        Ok(asked) => limited(asked.map_or(longest, |asked| asked.min(longest)), request, next),
        Err(rejection) => rejection.into_response(),
    }
}

fn limited(limit: Duration, request: Request, next: Next<'_>) -> Response {
    let called = match limit.is_zero() {
        true => None,
        false => ramie::cancel::with_timeout(limit, || next.call(request)).ok(),
    };
    called.unwrap_or_else(|| {
        let reason = "the time limit of the request has passed\n";
        (StatusCode::GATEWAY_TIMEOUT, reason).into_response()
    })
}

/// The limit that the client has set.
fn timeout_of(parts: &Parts) -> Result<Option<Duration>, Rejection> {
    let read = |name: HeaderName, parse: fn(&[u8]) -> Option<Duration>| {
        let Some(value) = parts.header(name.as_str()) else { return Ok(None) };
        parse(value).map(Some).ok_or_else(|| {
            Rejection::new(StatusCode::BAD_REQUEST, format!("the header {name} is malformed"))
        })
    };
    let (own, of_grpc) = (read(TIMEOUT_MS, parse_ms)?, read(GRPC_TIMEOUT, parse_grpc)?);
    Ok(own.into_iter().chain(of_grpc).min())
}

fn parse_ms(value: &[u8]) -> Option<Duration> {
    digits(value).map(Duration::from_millis)
}

/// See <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
fn parse_grpc(value: &[u8]) -> Option<Duration> {
    let (unit, number) = value.split_last()?;
    let number = digits(number).filter(|_| number.len() <= 8)?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 60 * 60),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// A number that consists of digits only: a sign is no digit.
fn digits(value: &[u8]) -> Option<u64> {
    let is_number = value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

/// The time that the limits around this call leave; `None` without a limit.
///
/// It is zero once a limit has passed. The limits are those of [`deadline`] and of
/// [`ramie::cancel`]; `Limits::request_timeout` of the server is not one of them.
///
/// # Blocking
/// Never.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie_http::middleware::remaining_timeout;
///
/// assert_eq!(remaining_timeout(), None);
/// let minute = Duration::from_secs(60);
/// let left = ramie::cancel::with_timeout(minute, remaining_timeout).expect("a minute is enough");
/// assert!(left.expect("a limit") <= minute);
/// ```
pub fn remaining_timeout() -> Option<Duration> {
    let deadline = ramie::cancel::current_deadline()?;
    Some(deadline.saturating_duration_since(Instant::now()))
}

/// The header by which a request to another service passes the time that is left on: its
/// [`deadline`] understands it. `None` without a limit.
///
/// The time is rounded down to whole milliseconds.
///
/// # Blocking
/// Never.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie_http::{HeaderMap, middleware::remaining_timeout_header};
///
/// let mut headers = HeaderMap::new();
/// let _ = ramie::cancel::with_timeout(Duration::from_secs(60), || {
///     headers.extend(remaining_timeout_header());
/// });
/// assert!(headers["x-request-timeout-ms"].to_str()?.parse::<u64>()? <= 60_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remaining_timeout_header() -> Option<(HeaderName, HeaderValue)> {
    let left = u64::try_from(remaining_timeout()?.as_millis()).unwrap_or(u64::MAX);
    Some((TIMEOUT_MS, left.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_strictly() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        for (value, timeout) in [
            ("1H", hours(1)),
            ("99999999H", hours(99_999_999)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("4m", Duration::from_millis(4)),
            ("5u", Duration::from_micros(5)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(parse_grpc(value.as_bytes()), Some(timeout), "{value}");
        }
        for value in ["", "m", "1", "+1m", "1 m", "100000000m", "1s", "1.5S"] {
            assert_eq!(parse_grpc(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(parse_ms(b"007"), Some(Duration::from_millis(7)));
        for value in ["", "+1", "-1", "1 ", "99999999999999999999"] {
            assert_eq!(parse_ms(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn the_shorter_of_two_headers_counts() {
        let request = |own, of_grpc| {
            let request = Request::get("/").with_header("x-request-timeout-ms", own);
            timeout_of(&request.with_header("grpc-timeout", of_grpc))
        };
        assert_eq!(request("7", "1S").unwrap(), Some(Duration::from_millis(7)));
        assert_eq!(request("7", "1m").unwrap(), Some(Duration::from_millis(1)));
        let reason = "the header grpc-timeout is malformed";
        assert_eq!(request("7", "x").unwrap_err().reason(), reason);
        assert_eq!(timeout_of(&Request::get("/")).unwrap(), None);
    }
}
