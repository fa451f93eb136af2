//! The text of a line.

use std::{
    fmt::Write,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use http::{Method, StatusCode, Version};

/// How lines look.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineFormat {
    Common,
    Json,
}

/// The parts of a line that are known when the request arrives.
pub(super) struct LoggedRequest {
    pub(super) time: SystemTime,
    pub(super) peer: Option<SocketAddr>,
    pub(super) id: Option<String>,
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) version: Version,
}

/// The parts of a line that are known when the handler has returned.
pub(super) struct LoggedResponse {
    pub(super) status: StatusCode,
    pub(super) length: Option<u64>,
    pub(super) duration: Duration,
}

impl LineFormat {
    /// The line, with its end.
    pub(super) fn line(self, request: &LoggedRequest, response: &LoggedResponse) -> String {
        let mut line = String::with_capacity(192);
        let written = match self {
            LineFormat::Common => write_common(&mut line, request, response),
            LineFormat::Json => write_json(&mut line, request, response),
        };
        written.expect("a String takes all text");
        line
    }
}

fn write_common(
    line: &mut String,
    request: &LoggedRequest,
    response: &LoggedResponse,
) -> std::fmt::Result {
    let peer = request.peer.map_or("-".to_owned(), |peer| peer.ip().to_string());
    let date = Date::of(request.time);
    let [day, month, year, time] = [date.day(), date.month(), date.year(), date.time()];
    write!(line, "{peer} - - [{day}/{month}/{year}:{time} +0000] \"{} ", request.method)?;
    append_escaped(line, &request.target, as_hex)?;
    let length = response.length.map_or("-".to_owned(), |length| length.to_string());
    let id = request.id.as_deref().unwrap_or("-");
    let (version, status) = (request.version, response.status.as_u16());
    let micros = response.duration.as_micros();
    write!(line, " {version:?}\" {status} {length} ")?;
    for c in id.chars() {
        // A space would begin another field.
        match c.is_ascii_graphic() && c != '"' {
            true => line.push(c),
            false => as_hex(line, c)?,
        }
    }
    writeln!(line, " {micros}")
}

/// `\x` and two digits for each byte.
fn as_hex(line: &mut String, c: char) -> std::fmt::Result {
    let mut bytes = [0; 4];
    c.encode_utf8(&mut bytes).bytes().try_for_each(|byte| write!(line, "\\x{byte:02x}"))
}

fn write_json(
    line: &mut String,
    request: &LoggedRequest,
    response: &LoggedResponse,
) -> std::fmt::Result {
    let date = Date::of(request.time);
    let month = date.month_number();
    let [year, day, time] = [date.year(), date.day(), date.time()];
    write!(line, "{{\"time\":\"{year}-{month:02}-{day}T{time}.{:03}Z\"", date.millis)?;
    append_optional(line, "peer", request.peer.map(|peer| peer.to_string()).as_deref())?;
    append_optional(line, "id", request.id.as_deref())?;
    append_optional(line, "method", Some(request.method.as_str()))?;
    append_optional(line, "target", Some(&request.target))?;
    let (version, status) = (request.version, response.status.as_u16());
    let length = response.length.map_or("null".to_owned(), |length| length.to_string());
    let micros = response.duration.as_micros();
    write!(line, ",\"version\":\"{version:?}\",\"status\":{status},\"bytes\":{length}")?;
    writeln!(line, ",\"duration_us\":{micros}}}")
}

/// Appends a member of a JSON object.
fn append_optional(line: &mut String, name: &str, value: Option<&str>) -> std::fmt::Result {
    write!(line, ",\"{name}\":")?;
    let Some(value) = value else { return line.write_str("null") };
    line.push('"');
    append_escaped(line, value, |line, c| {
        let mut units = [0; 2];
        c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(line, "\\u{unit:04x}"))
    })?;
    line.write_char('"')
}

/// Appends the text, with quotes, backslashes and all that is no visible ASCII escaped: control
/// characters, and characters that change the direction of a text.
fn append_escaped(
    line: &mut String,
    text: &str,
    escape: impl Fn(&mut String, char) -> std::fmt::Result,
) -> std::fmt::Result {
    text.chars().try_for_each(|c| match c {
        '"' | '\\' => write!(line, "\\{c}"),
        ' '..='~' => line.write_char(c),
        _ => escape(line, c),
    })
}

/// A time, split by the fixed places of `Sun, 06 Nov 1994 08:49:37 GMT`.
struct Date {
    text: String,
    millis: u32,
}

impl Date {
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since);
        Date { text, millis: since.subsec_millis() }
    }

    fn day(&self) -> &str {
        &self.text[5..7]
    }

    fn month(&self) -> &str {
        &self.text[8..11]
    }

    fn month_number(&self) -> usize {
        "JanFebMarAprMayJunJulAugSepOctNovDec".find(self.month()).map_or(0, |at| at / 3 + 1)
    }

    fn year(&self) -> &str {
        &self.text[12..16]
    }

    fn time(&self) -> &str {
        &self.text[17..25]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str) -> LoggedRequest {
        LoggedRequest {
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_042),
            peer: Some("[::1]:80".parse().unwrap()),
            id: Some("a7".to_owned()),
            method: Method::GET,
            target: target.to_owned(),
            version: Version::HTTP_11,
        }
    }

    fn response(length: Option<u64>) -> LoggedResponse {
        LoggedResponse { status: StatusCode::OK, length, duration: Duration::from_micros(81) }
    }

    #[test]
    fn a_common_line_has_all_parts() {
        let line = LineFormat::Common.line(&request("/a?b"), &response(Some(5)));
        let expected = "::1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 5 a7 81\n";
        assert_eq!(line, expected);
        let unknown = LoggedRequest { peer: None, id: None, ..request("/") };
        let line = LineFormat::Common.line(&unknown, &response(None));
        let expected = "- - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 - - 81\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_json_line_has_all_parts() {
        let line = LineFormat::Json.line(&request("/a?b"), &response(Some(5)));
        let expected = concat!(
            r#"{"time":"1994-11-06T08:49:37.042Z","peer":"[::1]:80","id":"a7","method":"GET","#,
            r#""target":"/a?b","version":"HTTP/1.1","status":200,"bytes":5,"duration_us":81}"#,
            "\n"
        );
        assert_eq!(line, expected);
        let unknown = LoggedRequest { peer: None, id: None, ..request("/") };
        let line = LineFormat::Json.line(&unknown, &response(None));
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(json["peer"].is_null() && json["id"].is_null() && json["bytes"].is_null());
    }

    #[test]
    fn each_month_has_its_number() {
        let month =
            |days: u64| Date::of(SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400));
        let numbers: Vec<_> = (0..12).map(|i| month(i * 31 - i / 2).month_number()).collect();
        assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    }

    #[test]
    fn a_target_cannot_forge_a_line() {
        let target = "/\"\\\n\u{7f}\u{9b}\u{202e}\u{1f600}";
        let common = LineFormat::Common.line(&request(target), &response(None));
        let escaped = r#""GET /\"\\\x0a\x7f\xc2\x9b\xe2\x80\xae\xf0\x9f\x98\x80 HTTP/1.1""#;
        assert!(common.contains(escaped), "{common}");
        let json = LineFormat::Json.line(&request(target), &response(None));
        assert!(json.trim_end().bytes().all(|byte| matches!(byte, b' '..=b'~')), "{json}");
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed["target"], target);
    }
}
