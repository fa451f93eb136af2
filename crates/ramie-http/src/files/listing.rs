//! A page with the names in a directory.

use std::{fmt::Write, io, os::fd::OwnedFd};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{Dir, FileType};

/// The most names on one page.
const MOST_NAMES: usize = 10_000;

/// All but the characters that RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An entry: its name, with a slash if it is a directory.
type Entry = Vec<u8>;

/// Reads the names, in order.
pub(super) fn read(directory: &OwnedFd, serves_hidden: bool) -> io::Result<Vec<Entry>> {
    ramie::blocking(|| {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let mut name = entry.file_name().to_bytes().to_vec();
            let is_hidden = name.starts_with(b".") && !serves_hidden;
            if matches!(&name[..], b"." | b"..") || is_hidden || names.len() == MOST_NAMES {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                name.push(b'/');
            }
            names.push(name);
        }
        names.sort();
        Ok(names)
    })
}

/// Writes the page. `path` is that of the request, decoded.
pub(super) fn page(path: &str, entries: &[Entry], has_parent: bool) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>");
    escape(&mut page, path);
    page.push_str("</title>\n<h1>");
    escape(&mut page, path);
    page.push_str("</h1>\n<ul>\n");
    if has_parent {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    for entry in entries {
        let (name, slash) = match entry.strip_suffix(b"/") {
            Some(name) => (name, "/"),
            None => (&entry[..], ""),
        };
        // `./`, so that a name with a colon is not taken for a scheme.
        let _ = write!(page, "<li><a href=\"./{}{slash}\">", percent_encode(name, ESCAPED));
        escape(&mut page, &String::from_utf8_lossy(entry));
        page.push_str("</a>\n");
    }
    page.push_str("</ul>\n");
    page
}

/// Appends text, without the characters that mean something in HTML.
fn escape(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            c => page.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let entries = [b"<script>\"'&".to_vec(), b"a:b c%/".to_vec(), b"\xff".to_vec()];
        let page = page("/<b>/", &entries, true);
        assert!(page.contains("<title>/&lt;b&gt;/</title>"));
        assert!(
            page.contains("<a href=\"./%3Cscript%3E%22%27%26\">&lt;script&gt;&quot;&#39;&amp;</a>")
        );
        assert!(page.contains("<a href=\"./a%3Ab%20c%25/\">a:b c%/</a>"));
        assert!(page.contains("<a href=\"./%FF\">\u{fffd}</a>"));
        assert!(page.contains("<a href=\"../\">"));
    }
}
