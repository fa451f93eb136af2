//! Holds the tables against std's documentation as the toolchain brings it, so that no line is
//! missing. Without that documentation there is nothing to hold them against.

use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Command};

use super::{Row, bare, rows, tables};

/// The minor version of Rust that the tables are for; newer items may be missing.
const VERSION: u32 = 95;

/// Words of bounds that no program can speak of on stable Rust for Linux: the compiler's, the
/// unstable, and those of Windows.
const OUT_OF_REACH: [&[&str]; 3] = [
    &["Freeze", "UnsafeUnpin", "StructuralPartialEq", "Drop"],
    &["StdioExt", "DirEntryExt2", "UnixSocketExt", "ChildExt", "OpenOptionsExt2", "FileTimesExt"],
    &["Handle", "RawHandle", "OwnedHandle", "Socket", "RawSocket", "OwnedSocket"],
];

fn documentation() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let folder = PathBuf::from(sysroot.trim()).join("share/doc/rust/html/std");
    folder.is_dir().then_some(folder)
}

/// An item of a module: its kind, its name, its page.
struct Item {
    kind: String,
    name: String,
    page: String,
}

fn items(folder: PathBuf) -> Vec<Item> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let item = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let (kind, name) = file.strip_suffix(".html")?.split_once('.')?;
        let page = fs::read_to_string(entry.path()).ok()?;
        let page = page.split_once("<section id=\"main-content\"")?.1.to_owned();
        let (kind, name) = (kind.to_owned(), name.to_owned());
        is_stable(page.split("<h2 id=").next()?).then_some(Item { kind, name, page })
    };
    entries.filter_map(|entry| item(entry.ok()?)).collect()
}

/// Whether the item of a piece of documentation can be used with the tables' version.
fn is_stable(html: &str) -> bool {
    let is_newer = |text: &str| {
        let minor = text.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
        minor.is_some_and(|minor: u32| minor > VERSION)
    };
    let since = html.split("Stable since Rust version 1.").nth(1);
    !html.contains("stab unstable") && !since.is_some_and(is_newer)
}

/// The pieces that begin with `start`, each to the end of its summary.
fn pieces<'a>(html: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let end = |piece: &str| {
        let header = piece.find("</section>").unwrap_or(piece.len());
        let rest = &piece[header..];
        let ends = ["</summary>", "<section ", "<details", "<div class=\"docblock"];
        header + ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len())
    };
    html.split(start).skip(1).map(move |piece| &piece[..end(piece)])
}

fn text(html: &str) -> String {
    let html = html.replace("<div class=\"where\">", " ");
    let tags = html.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    let text: String = tags.collect();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ");
    text.replace("&#39;", "'").replace("&amp;", "&")
}

/// `impl<T> Trait for Type where …`, as the tables put it: `Type: Trait`.
fn as_bound(header: &str) -> Option<String> {
    let mut rest = header.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().position(|(at, c)| {
            let is_arrow = c == '>' && rest[..at].ends_with('-');
            depth += i32::from(c == '<') - i32::from(c == '>' && !is_arrow);
            depth == 0
        });
        rest = &rest[end? + 1..];
    }
    let (name, owner) = rest.split_once(" for ")?;
    let (name, owner) = (name.trim(), owner.split(" where").next()?.trim());
    let bare_word = |word: &str| {
        let ways = ["As", "From", "Into"];
        ways.iter().find_map(|way| word.strip_prefix(way)).unwrap_or(word).to_owned()
    };
    let mut words = header.split(|c: char| !c.is_alphanumeric() && c != '_').map(bare_word);
    if name.starts_with('!') || words.any(|word| OUT_OF_REACH.concat().contains(&&*word)) {
        return None;
    }
    match name {
        "PartialEq" | "PartialOrd" | "Sub" => Some(format!("{owner}: {name}<{owner}>")),
        _ => Some(format!("{owner}: {name}")),
    }
}

/// The items listed on the page of a type or a trait.
fn members(item: &Item) -> Vec<String> {
    let mut members = Vec::new();
    for part in item.page.split("<h2 id=\"").skip(1) {
        match part.split('"').next().unwrap_or_default() {
            "fields" | "implementations" | "required-methods" | "provided-methods" => {
                for start in ["structfield", "method", "tymethod", "associatedconstant"] {
                    let start = format!("id=\"{start}.");
                    let stable = pieces(part, &start).filter(|piece| is_stable(piece));
                    members.extend(stable.map(|piece| {
                        let name = piece.split(['"', '-']).next().unwrap_or_default();
                        format!("{}::{name}", item.name)
                    }));
                }
            }
            "trait-implementations" | "synthetic-implementations" if item.kind != "trait" => {
                let stable = pieces(part, "<section id=\"impl-").filter(|piece| is_stable(piece));
                let header = |piece: &str| {
                    let (_, header) = piece.split_once("<h3 class=\"code-header\">")?;
                    as_bound(&text(header.split("</h3>").next()?))
                };
                members.extend(stable.filter_map(header));
            }
            _ => {}
        }
    }
    members
}

#[test]
fn no_stable_item_is_missing() {
    let Some(documentation) = documentation() else {
        eprintln!("skipped: the toolchain has no documentation (rustup component add rust-docs)");
        return;
    };
    let mut missing = Vec::new();
    let mut seen = 0;
    for table in tables() {
        let rows = rows(&table);
        let named = |row: &Row<'_>| row.items.to_vec();
        let listed: BTreeSet<_> = rows.iter().flat_map(named).collect();
        let is_ours = |name: &String| {
            let row = rows.iter().find(|row| row.items.contains(name));
            row.is_none_or(|row| matches!(row.verdict, "same" | "differs"))
        };
        for item in items(documentation.join(table.name.replace('_', "/"))) {
            let mut expected = vec![item.name.clone()];
            if is_ours(&item.name) {
                expected.extend(members(&item));
            }
            seen += expected.len();
            let is_missing = |name: &&String| !listed.contains(&bare(name));
            let name = |name: &String| format!("{}: {name}", table.name);
            missing.extend(expected.iter().filter(is_missing).map(name));
        }
    }
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
    assert!(seen > 900, "only {seen} items found: the documentation has another form");
}

#[test]
fn no_stable_module_is_missing() {
    let Some(documentation) = documentation() else { return };
    let listed: BTreeSet<_> = tables().iter().map(|table| table.name.replace('_', "/")).collect();
    let mut missing = Vec::new();
    for parent in ["fs", "io", "net", "os/linux", "os/unix", "process", "sync", "thread", "time"] {
        let index = documentation.join(parent).join("index.html");
        let index = fs::read_to_string(index).expect("a module has an index");
        for entry in index.split("<a class=\"mod\"").skip(1) {
            let entry = entry.split("</dt>").next().unwrap_or_default();
            let name = entry.split(['>', '<']).nth(1).unwrap_or_default();
            let path = format!("{parent}/{name}");
            // `os::unix::io` is `os::fd` by its old name. Deprecated ones are std's own, whole.
            if !entry.contains("class=\"stab") && path != "os/unix/io" && !listed.contains(&path) {
                missing.push(path);
            }
        }
    }
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
}
