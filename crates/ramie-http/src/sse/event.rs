//! One event, and its text.

use std::{fmt::Write, io, iter, time::Duration};

use serde::Serialize;

/// A server-sent event.
///
/// Line ends of every kind in the data arrive as `\n`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie_http::{IntoResponse, sse::{Sse, SseEvent}};
///
/// let event = SseEvent::new("two\nlines")
///     .with_name("notice")
///     .with_id("7")
///     .with_retry(Duration::from_secs(2));
/// let body = Sse::from_events([event]).into_response().into_body().into_bytes(200)?;
/// assert_eq!(body, "event: notice\nid: 7\nretry: 2000\ndata: two\ndata: lines\n\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    comment: Option<String>,
    name: Option<String>,
    id: Option<String>,
    retry: Option<Duration>,
    data: Option<String>,
}

impl SseEvent {
    /// An event with data, which may have several lines or be empty.
    pub fn new(data: impl Into<String>) -> Self {
        SseEvent { data: Some(data.into()), ..SseEvent::default() }
    }

    /// An event whose data is a value as JSON.
    ///
    /// # Errors
    /// The value cannot be JSON, such as a map whose keys are no strings.
    pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(SseEvent::new)
    }

    /// A comment, which clients ignore.
    pub fn comment(text: impl Into<String>) -> Self {
        SseEvent { comment: Some(text.into()), ..SseEvent::default() }
    }

    /// Names the event, so that clients call the listeners of that name; without a name they call
    /// those of `message`. A name with a line end cannot be sent.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the id, which the client sends as [`LastEventId`](super::LastEventId) when it connects
    /// again. An id with a line end or a NUL cannot be sent.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets how long clients wait before they connect again, from this event on.
    #[must_use]
    pub fn with_retry(mut self, time: Duration) -> Self {
        self.retry = Some(time);
        self
    }

    /// The text, with the empty line that ends an event.
    pub(super) fn encode(&self) -> io::Result<String> {
        let mut text = String::new();
        for line in self.comment.iter().flat_map(|comment| lines(comment)) {
            append(&mut text, "", line);
        }
        if let Some(name) = &self.name {
            append(&mut text, "event", one_line(name, &['\r', '\n'], "name")?);
        }
        if let Some(id) = &self.id {
            append(&mut text, "id", one_line(id, &['\r', '\n', '\0'], "id")?);
        }
        if let Some(retry) = self.retry {
            append(&mut text, "retry", &retry.as_millis().to_string());
        }
        for line in self.data.iter().flat_map(|data| lines(data)) {
            append(&mut text, "data", line);
        }
        text.push('\n');
        Ok(text)
    }
}

fn append(text: &mut String, field: &str, value: &str) {
    // The client removes one space, so the value may begin with one.
    writeln!(text, "{field}: {value}").expect("a String takes all text");
}

fn one_line<'a>(value: &'a str, forbidden: &[char], which: &str) -> io::Result<&'a str> {
    match value.contains(forbidden) {
        false => Ok(value),
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the {which} {value:?} of an event contains a line end or a NUL"),
        )),
    }
}

/// The lines of a text, whose ends may be `\r\n`, `\n` or `\r`, as clients split them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\r', '\n']) else {
            rest = None;
            return Some(text);
        };
        let length = if text[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = Some(&text[end + length..]);
        Some(&text[..end])
    })
}

impl From<&str> for SseEvent {
    fn from(data: &str) -> Self {
        SseEvent::new(data)
    }
}

impl From<String> for SseEvent {
    fn from(data: String) -> Self {
        SseEvent::new(data)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a client reads of a stream: section 9.2.6 of the standard, step by step.
    #[derive(Debug, Default, PartialEq)]
    struct Client {
        name: String,
        data: String,
        last_id: String,
        events: Vec<(String, String, String)>,
    }

    impl Client {
        fn read(stream: &str) -> Self {
            let mut client = Client::default();
            let unix = stream.replace("\r\n", "\n").replace('\r', "\n");
            let complete = unix.rsplit_once('\n').map_or("", |(complete, _)| complete);
            complete.split('\n').for_each(|line| client.read_line(line));
            client
        }

        fn read_line(&mut self, line: &str) {
            let (field, value) = match line.split_once(':') {
                None => (line, ""),
                Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            };
            match field {
                "" if line.is_empty() => self.dispatch(),
                "event" => value.clone_into(&mut self.name),
                "data" => self.data += &format!("{value}\n"),
                "id" if !value.contains('\0') => value.clone_into(&mut self.last_id),
                _ => {}
            }
        }

        fn dispatch(&mut self) {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            if let Some(data) = data.strip_suffix('\n') {
                self.events.push((name, data.to_owned(), self.last_id.clone()));
            }
        }
    }

    fn unix(text: &str) -> String {
        text.replace("\r\n", "\n").replace('\r', "\n")
    }

    proptest! {
        #[test]
        fn clients_read_what_was_sent(
            data in r"([a:] ?|\r|\n|\PC)*",
            name in r"([ :a]|\PC)*",
            id in r"([ :a]|\PC)*",
            comment in r"(data: x|\r|\n|\PC)*",
        ) {
            let mut text = SseEvent::comment(comment).encode().unwrap();
            let event = SseEvent::new(data.as_str()).with_name(name.as_str()).with_id(id.as_str());
            text += &event.encode().unwrap();
            prop_assert_eq!(Client::read(&text).events, [(name, unix(&data), id)]);
        }

        #[test]
        fn names_and_ids_cannot_forge_fields(text in "(data: x|\r|\n|\0|a)*") {
            let sent = SseEvent::new("data").with_name(text.as_str()).encode();
            prop_assert_eq!(sent.is_err(), text.contains(['\r', '\n']));
            let sent = SseEvent::new("data").with_id(text.as_str()).encode();
            prop_assert_eq!(sent.is_err(), text.contains(['\r', '\n', '\0']));
        }
    }

    #[test]
    fn an_event_may_lack_data() {
        let event = SseEvent::default().with_retry(Duration::from_millis(20));
        assert_eq!(event.encode().unwrap(), "retry: 20\n\n");
        assert_eq!(SseEvent::new("").encode().unwrap(), "data: \n\n");
        assert_eq!(SseEvent::json(&[1, 2]).unwrap(), SseEvent::new("[1,2]"));
    }
}
