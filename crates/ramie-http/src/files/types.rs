//! The media type of a file, by the ending of its name.

use std::path::Path;

use http::HeaderValue;

/// Texts are taken to be UTF-8, because browsers would otherwise guess.
pub(super) fn of_path(path: &Path) -> HeaderValue {
    let found = mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream");
    let is_text = found.starts_with("text/");
    if is_text && let Ok(text) = HeaderValue::try_from(format!("{found}; charset=utf-8")) {
        return text;
    }
    HeaderValue::from_static(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_depend_on_endings() {
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("a.HTML", "text/html; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.svg", "image/svg+xml"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
            ("a.png", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("a", "application/octet-stream"),
            ("a.unknown-ending", "application/octet-stream"),
        ] {
            assert_eq!(of_path(Path::new(name)), expected, "{name}");
        }
    }
}
