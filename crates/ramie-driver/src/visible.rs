//! Text for people without the characters that control a terminal or reorder a line.
//!
//! The names of strands, threads and files are chosen by programs, which may have taken them from a
//! request, and another process may answer with any text. So all such text that people read goes
//! through this module, which escapes these characters as Rust does: `\u{1b}[2J`, `\n`.

use std::fmt;

/// A text whose `Display` has no character that controls a terminal or reorders a line.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a> {
    text: &'a str,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Line,
    Lines,
    Json,
}

/// A name, or a sentence: line breaks are escaped, too.
pub fn line(text: &str) -> Visible<'_> {
    Visible { text, form: Form::Line }
}

/// A text of several lines, whose line breaks stay.
pub fn lines(text: &str) -> Visible<'_> {
    Visible { text, form: Form::Lines }
}

/// JSON, or a part of it: the escapes are those of its strings, so their values stay the same.
pub fn json(text: &str) -> Visible<'_> {
    Visible { text, form: Form::Json }
}

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_hidden = |c: char| is_hidden(c) && (c != '\n' || self.form == Form::Line);
        let mut rest = self.text;
        while let Some((at, hidden)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            f.write_str(&rest[..at])?;
            match self.form {
                Form::Line | Form::Lines => write!(f, "{}", hidden.escape_default())?,
                // All these characters have numbers of 16 bits.
                Form::Json => write!(f, "\\u{:04x}", u32::from(hidden))?,
            }
            rest = &rest[at + hidden.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// The control characters, C1 included, which some terminals obey; line and paragraph separators;
/// and the marks that change the direction of what follows.
fn is_hidden(c: char) -> bool {
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    let reorders = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || separates || reorders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped_and_the_rest_stays() {
        let text = "a\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{2028}\r\n\té \\ 'ß' 日\u{200d}";
        let (one, plain) = (line(text).to_string(), "é \\ 'ß' 日\u{200d}");
        assert_eq!(
            one,
            format!("a\\u{{1b}}[2J\\u{{9b}}\\u{{7f}}\\u{{202e}}\\u{{2028}}\\r\\n\\t{plain}")
        );
        assert_eq!(lines(text).to_string(), one.replace("\\n", "\n"));
        let of_json = "a\\u001b[2J\\u009b\\u007f\\u202e\\u2028\\u000d\n\\u0009";
        assert_eq!(json(text).to_string(), format!("{of_json}{plain}"));
        for text in ["", "plain", "\u{1b}", "\u{1b}\u{1b}"] {
            assert_eq!(line(text).to_string(), text.replace('\u{1b}', "\\u{1b}"));
        }
    }
}
