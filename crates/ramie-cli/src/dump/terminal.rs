//! Answers of other processes, made safe to print.
//!
//! The process may belong to another user, and send any bytes to a terminal of root. An answer
//! comes in parts that may end within a character.

use ramie_driver::visible::{self, Visible};

/// The parts of one answer, of which no character controls a terminal.
pub(super) struct SafeAnswer {
    escape: fn(&str) -> Visible<'_>,
    /// The begin of a character whose rest has not come yet.
    begun: Vec<u8>,
}

impl SafeAnswer {
    pub(super) fn new(is_json: bool) -> SafeAnswer {
        SafeAnswer {
            escape: if is_json { visible::json } else { visible::lines },
            begun: Vec::new(),
        }
    }

    /// The next part. Bytes that are not UTF-8, which terminals may take for control characters,
    /// are replaced.
    pub(super) fn add(&mut self, part: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(part);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            match str::from_utf8(chunk.invalid()) {
                // Nothing is invalid.
                Ok(_) => {}
                Err(error) if error.error_len().is_none() && chunks.peek().is_none() => {
                    self.begun = chunk.invalid().to_owned();
                }
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        (self.escape)(&text).to_string()
    }

    /// The end of the answer.
    pub(super) fn end(&self) -> &'static str {
        if self.begun.is_empty() { "" } else { "\u{fffd}" }
    }
}
