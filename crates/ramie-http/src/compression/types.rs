//! Which media types are worth compressing.

/// Types besides `text/…` and those that end with `+json`, `+xml` or `+text`.
const COMPRESSIBLE: &[&str] = &[
    "application/javascript",
    "application/json",
    "application/json-seq",
    "application/manifest",
    "application/rtf",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

pub(super) fn is_compressible(content_type: &[u8], has_event_streams: bool) -> bool {
    let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
    let essence = content_type[..end].trim_ascii().to_ascii_lowercase();
    match &essence[..] {
        b"text/event-stream" => has_event_streams,
        essence if essence.starts_with(b"text/") => true,
        essence => {
            let ends = |ending: &&str| essence.ends_with(ending.as_bytes());
            ["+json", "+xml", "+text"].iter().any(ends)
                || COMPRESSIBLE.iter().any(|own| own.as_bytes() == essence)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compressed_and_archives_are_not() {
        for yes in [
            "text/html; charset=utf-8",
            "TEXT/CSS",
            "application/json",
            "application/ld+json",
            "image/svg+xml",
            "application/wasm",
            "application/xml ; a=b",
        ] {
            assert!(is_compressible(yes.as_bytes(), false), "{yes}");
        }
        for no in
            ["", "image/png", "application/zip", "application/octet-stream", "video/mp4", "xml"]
        {
            assert!(!is_compressible(no.as_bytes(), true), "{no}");
        }
        assert!(!is_compressible(b"text/event-stream", false));
        assert!(is_compressible(b"Text/Event-Stream; charset=utf-8", true));
    }
}
