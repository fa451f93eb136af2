//! From the path of a request to a path below the directory, without I/O.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use percent_encoding::percent_decode;

/// A path that names nothing outside of the directory, unless by symbolic links.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePath {
    /// Relative; empty for the directory itself.
    pub(super) path: PathBuf,
    /// Whether the path of the request ends with a slash.
    pub(super) has_slash: bool,
}

impl FilePath {
    /// Translates the path of a request, with its escapes. None: it has a segment that is refused,
    /// or is not behind the prefix.
    ///
    /// Each segment is decoded once, and after the split, so an escaped slash cannot divide it.
    pub(super) fn parse(path: &str, prefix: &str, serves_hidden: bool) -> Option<Self> {
        let rest = path.strip_prefix(prefix)?;
        if rest.is_empty() {
            return Some(FilePath { path: PathBuf::new(), has_slash: false });
        }
        let rest = rest.strip_prefix('/')?;
        let (segments, has_slash) = match rest.strip_suffix('/') {
            Some(segments) => (segments, true),
            None => (rest, rest.is_empty()),
        };
        let mut path = PathBuf::new();
        // An empty rest is the directory itself; any other empty segment is refused below.
        if !rest.is_empty() {
            for segment in segments.split('/') {
                let segment: Vec<u8> = percent_decode(segment.as_bytes()).collect();
                if !is_name(&segment, serves_hidden) {
                    return None;
                }
                path.push(OsStr::from_bytes(&segment));
            }
        }
        Some(FilePath { path, has_slash })
    }
}

/// Whether a segment is the name of a file. Backslashes are refused because other programs that
/// see the name may take them for slashes.
fn is_name(segment: &[u8], serves_hidden: bool) -> bool {
    let is_special = matches!(segment, b"" | b"." | b"..");
    let is_hidden = segment.starts_with(b".") && !serves_hidden;
    !is_special && !is_hidden && !segment.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0))
}

/// Adds an ending to the name of a file.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(path: &str) -> Option<(String, bool)> {
        let found = FilePath::parse(path, "", false)?;
        Some((found.path.to_str().unwrap().to_owned(), found.has_slash))
    }

    #[test]
    fn names_are_decoded_once() {
        for (path, expected, has_slash) in [
            ("/", "", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("/a/b.txt", "a/b.txt", false),
            ("/a%20b", "a b", false),
            ("/%61", "a", false),
            ("/%252e%252e", "%2e%2e", false),
            ("/a..b", "a..b", false),
            ("/%c3%a4", "\u{e4}", false),
        ] {
            assert_eq!(parse(path), Some((expected.to_owned(), has_slash)), "{path}");
        }
    }

    #[test]
    fn what_might_lead_out_of_the_directory_is_refused() {
        for path in [
            "/..",
            "/../",
            "/../a",
            "/a/..",
            "/a/../b",
            "/%2e%2e",
            "/%2E%2e/a",
            "/.%2e",
            "/%2e./a",
            "/.",
            "/./a",
            "/a/.",
            "//",
            "//a",
            "/a//b",
            "/a//",
            "//etc/passwd",
            "/%2f",
            "/%2fetc",
            "/a%2fb",
            "/a%2F..%2Fb",
            "/a%5cb",
            "/..%5c",
            "/a%00",
            "/%00",
            "/a%00.txt",
            "a",
            "*",
        ] {
            assert_eq!(FilePath::parse(path, "", true), None, "{path}");
        }
    }

    #[test]
    fn hidden_files_are_refused_unless_asked_for() {
        for path in ["/.git", "/.git/config", "/a/.b", "/%2egit", "/..."] {
            assert_eq!(parse(path), None, "{path}");
            assert!(FilePath::parse(path, "", true).is_some(), "{path}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        let behind = |path| FilePath::parse(path, "/static", false);
        assert_eq!(behind("/static/a").unwrap().path, Path::new("a"));
        assert!(!behind("/static").unwrap().has_slash && behind("/static/").unwrap().has_slash);
        assert_eq!(behind("/statica"), None);
        assert_eq!(behind("/a"), None);
        assert_eq!(behind("/static/../a"), None);
    }

    proptest! {
        #[test]
        fn no_path_has_components_but_names(path in "/([a-c./\\\\]|%2[eEfF]|%5c|%00|%25){0,20}") {
            if let Some(found) = FilePath::parse(&path, "", true) {
                prop_assert!(found.path.is_relative());
                for component in found.path.components() {
                    prop_assert!(matches!(component, std::path::Component::Normal(_)));
                }
                prop_assert!(!found.path.as_os_str().as_bytes().contains(&0));
            }
        }
    }
}
