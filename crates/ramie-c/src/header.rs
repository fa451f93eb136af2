//! The header against the sources: both have the same functions.

use std::collections::BTreeSet;

const HEADER: &str = include_str!("../include/ramie.h");
const SOURCES: [&str; 5] = [
    include_str!("channel.rs"),
    include_str!("fiber.rs"),
    include_str!("guest.rs"),
    include_str!("io.rs"),
    include_str!("runtime.rs"),
];

/// The names that begin with `ramie_`, each followed by `(`, behind `before` in a line.
fn functions(text: &str, before: &str) -> BTreeSet<String> {
    let named = |line: &str| {
        let start = line.find("ramie_")?;
        let name = line[start..].split('(').next().filter(|name| !name.contains(' '))?;
        let is_declared = line.contains(before) && line[start..].contains('(');
        is_declared.then(|| name.to_owned())
    };
    text.lines().filter_map(named).collect()
}

#[test]
fn the_header_declares_what_the_library_has() {
    let has: BTreeSet<_> =
        SOURCES.iter().flat_map(|source| functions(source, "extern \"C\" fn ")).collect();
    assert!(has.len() > 25, "{has:?}");
    let is_code = |line: &&str| !line.starts_with(" *") && !line.starts_with("/*");
    let code: Vec<_> = HEADER.lines().filter(is_code).collect();
    let returns_handle = |line: &str| line.replace("ramie_handle *", "");
    let code: String = code.into_iter().map(|line| returns_handle(line) + "\n").collect();
    let declared: BTreeSet<_> =
        functions(&code, "").into_iter().filter(|name| !name.contains(')')).collect();
    assert_eq!(declared, has);
}

#[test]
fn the_header_is_short() {
    assert!(HEADER.lines().count() < 500);
}
