//! The table of cancel points against the docs of the sources: every call that may park documents
//! whether it is one, and is in the table with the same verdict.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Calls whose docs a macro writes for many; the macro's docs mean "yes".
const MADE_BY_MACROS: &[&str] = &[
    "fs::canonicalize",
    "fs::create_dir",
    "fs::create_dir_all",
    "fs::hard_link",
    "fs::read_link",
    "fs::remove_dir",
    "fs::remove_dir_all",
    "fs::remove_file",
    "fs::rename",
    "fs::set_permissions",
    "os::unix::fs::chown",
    "os::unix::fs::chroot",
    "os::unix::fs::lchown",
    "os::unix::fs::symlink",
    "process::ChildStderr",
    "process::ChildStdin",
    "process::ChildStdout",
];
/// Where a call is found in the sources, and where its users find it.
const MOVED: &[(&str, &str)] = &[
    ("fs::fchown", "os::unix::fs::fchown"),
    ("inspect::trace::write_trace", "inspect::write_trace"),
    ("io::lock", "io::Stdout::lock"),
];
/// Files that are modules of their own; the others' items belong to the folder's module.
const OWN_MODULES: &[&str] = &["mpsc", "oneshot"];

fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources_under(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => sources_under(&path, found),
            Some(extension) if extension == "rs" => found.push(path),
            _ => {}
        }
    }
}

/// The module in which users find the items of this file.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<_> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let stem = parts.pop().unwrap();
    if OWN_MODULES.contains(&stem.as_str())
        || parts.is_empty() && ["signal", "thread"].contains(&stem.as_str())
    {
        parts.push(stem);
    }
    // `lib.rs` re-exports these at the root, or without the layer.
    if parts == ["runtime"] || parts == ["op"] {
        return Vec::new();
    }
    if parts.first().is_some_and(|layer| layer == "core") {
        parts.remove(0);
    }
    parts
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The type that an `impl` line is for.
fn type_of(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let mut depth = 0;
    let mut before = ' ';
    let end = rest.find(|c| {
        depth += match c {
            '<' => 1,
            '>' if before != '-' => -1,
            _ => 0,
        };
        before = c;
        depth == 0
    })?;
    let rest = rest[end..].trim_start_matches('>').trim_start();
    Some(word(rest))
}

/// The name of an item.
fn name_of(line: &str) -> Option<String> {
    let kinds = ["fn ", "struct ", "trait ", "macro_rules! "];
    let name = kinds.iter().find_map(|kind| Some(word(line.split_once(kind)?.1)))?;
    (!name.is_empty()).then_some(name)
}

/// The first line under a heading.
fn section<'a>(doc: &[&'a str], heading: &str) -> Option<&'a str> {
    let start = doc.iter().position(|line| *line == heading)?;
    doc.get(start + 1).copied()
}

/// The verdict in the text; of a type, that of its reads and writes.
fn verdict(text: &str) -> Option<&'static str> {
    match text {
        _ if text.starts_with("Not a cancel point") => Some("no"),
        _ if text.starts_with("Returns early") => Some("early"),
        _ if text.starts_with("In a cancelled scope it returns early") => Some("early"),
        _ if text.contains("cancel point") => Some("yes"),
        _ => None,
    }
}

/// The calls that may park, with the verdicts of their docs; and complaints.
fn documented() -> (BTreeMap<String, &'static str>, Vec<String>) {
    let (mut calls, mut complaints) = (BTreeMap::new(), Vec::new());
    let mut files = Vec::new();
    sources_under(&crate_path("src"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let file = path.strip_prefix(crate_path("src")).unwrap();
        let (mut doc, mut owner) = (Vec::new(), None);
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            if let Some(text) = code.strip_prefix("///") {
                doc.push(text.trim());
                continue;
            }
            if let Some(found) = type_of(line) {
                owner = Some(found);
            } else if line == "}" {
                owner = None;
            }
            if code.starts_with("#[") || doc.is_empty() {
                continue;
            }
            let doc = std::mem::take(&mut doc);
            let may_park =
                section(&doc, "# Blocking").is_some_and(|text| !text.starts_with("Never"));
            if !may_park {
                continue;
            }
            let Some(said) = section(&doc, "# Cancellation").and_then(verdict) else {
                complaints.push(format!(
                    "{}:{}: it may park; say under `# Cancellation` whether it is a cancel point",
                    file.display(),
                    number + 1
                ));
                continue;
            };
            let Some(name) = name_of(code) else { continue };
            let mut call = module_of(file);
            call.extend(owner.clone().filter(|_| line.starts_with(' ')));
            call.push(name);
            let call = call.join("::");
            let moved = MOVED.iter().find(|(there, _)| *there == call);
            calls.insert(moved.map_or(call, |(_, here)| (*here).to_owned()), said);
        }
    }
    calls.extend(MADE_BY_MACROS.iter().map(|call| ((*call).to_owned(), "yes")));
    (calls, complaints)
}

fn table() -> BTreeMap<String, String> {
    let text = fs::read_to_string(crate_path("docs/cancel-points.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (call, rest) = row.split_once("` | ").expect("a call, then its verdict");
        (call.to_owned(), word(rest))
    })
    .collect()
}

#[test]
fn the_table_agrees_with_the_docs() {
    let (calls, mut complaints) = documented();
    let table = table();
    assert!(calls.len() > 150, "only {} calls were found", calls.len());
    for (call, said) in &calls {
        match table.get(call) {
            None => complaints.push(format!("{call} ({said}) is not in docs/cancel-points.md")),
            Some(row) if row != said => {
                complaints.push(format!("{call}: `{row}` in the table, `{said}` in its docs"));
            }
            Some(_) => {}
        }
    }
    let unknown = table.keys().filter(|call| !calls.contains_key(*call));
    complaints.extend(unknown.map(|call| format!("{call} is in the table, but may not park")));
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
