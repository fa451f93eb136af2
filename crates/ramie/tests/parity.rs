//! The tables of `ramie::parity`, held against the proofs in `parity/*.rs`, where all that they
//! speak of is used: the same source is compiled with std and with Ramie in its place.

use std::collections::BTreeSet;

#[macro_use]
#[path = "parity/proofs.rs"]
mod proofs;

#[path = "parity/complete.rs"]
mod complete;

#[allow(clippy::duplicate_mod, dead_code)]
#[path = "parity"]
mod of_std {
    use ::std;

    pub(crate) mod fs;
    pub(crate) mod io;
    pub(crate) mod io_prelude;
    pub(crate) mod macros;
    pub(crate) mod net;
    pub(crate) mod os_fd;
    pub(crate) mod os_linux_fs;
    pub(crate) mod os_linux_net;
    pub(crate) mod os_raw;
    pub(crate) mod os_unix_ffi;
    pub(crate) mod os_unix_fs;
    pub(crate) mod os_unix_net;
    pub(crate) mod os_unix_prelude;
    pub(crate) mod os_unix_process;
    pub(crate) mod os_unix_thread;
    pub(crate) mod process;
    pub(crate) mod sync;
    pub(crate) mod sync_atomic;
    pub(crate) mod sync_mpsc;
    pub(crate) mod thread;
    pub(crate) mod time;
}

#[path = "parity"]
mod of_ramie {
    use ::ramie as std;

    pub(crate) mod fs;
    pub(crate) mod io;
    pub(crate) mod io_prelude;
    pub(crate) mod macros;
    pub(crate) mod net;
    pub(crate) mod os_fd;
    pub(crate) mod os_linux_fs;
    pub(crate) mod os_linux_net;
    pub(crate) mod os_raw;
    pub(crate) mod os_unix_ffi;
    pub(crate) mod os_unix_fs;
    pub(crate) mod os_unix_net;
    pub(crate) mod os_unix_prelude;
    pub(crate) mod os_unix_process;
    pub(crate) mod os_unix_thread;
    pub(crate) mod process;
    pub(crate) mod sync;
    pub(crate) mod sync_atomic;
    pub(crate) mod sync_mpsc;
    pub(crate) mod thread;
    pub(crate) mod time;
}

/// The items that are absent by the table, as far as that can be proved.
mod absent {
    use std::{
        io::{Read, Seek, Write},
        os::unix::thread::JoinHandleExt,
        sync::Arc,
    };

    use ramie::{fs::File, thread::JoinHandle};

    lacks! {
        Arc<File>: Read, Write, Seek;
        JoinHandle<()>: JoinHandleExt;
    }

    pub(crate) fn bounds() -> Vec<&'static str> {
        lacks()
    }
}

struct Table {
    name: &'static str,
    text: &'static str,
    twins: Vec<&'static str>,
    left_to_std: Vec<&'static str>,
}

macro_rules! tables {
    ($($module:ident)+) => {
        vec![$(Table {
            name: stringify!($module),
            text: include_str!(concat!("../docs/parity/", stringify!($module), ".md")),
            twins: of_ramie::$module::twins(),
            left_to_std: of_ramie::$module::left_to_std(),
        }),+]
    };
}

fn tables() -> Vec<Table> {
    tables! {
        macros thread net os_unix_net os_linux_net fs os_unix_fs os_linux_fs io io_prelude process
        os_unix_process sync sync_mpsc sync_atomic time os_fd os_raw os_unix_ffi os_unix_prelude
        os_unix_thread
    }
}

/// A line of a table: the item of std, the verdict, the note.
struct Row<'a> {
    items: Vec<String>,
    verdict: &'a str,
    note: &'a str,
}

fn rows(table: &Table) -> Vec<Row<'_>> {
    let row = |line: &'static str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [items, verdict, note] = cells[..] else { panic!("not three cells: {line}") };
        let items = items.split('`').skip(1).step_by(2).flat_map(expand).collect();
        Row { items, verdict, note }
    };
    table.text.lines().filter(|line| line.starts_with('|')).skip(2).map(row).collect()
}

/// `A::{b, c}` is `A::b` and `A::c`; `T: A + B` is `T: A` and `T: B`.
fn expand(item: &str) -> Vec<String> {
    if let Some((prefix, names)) = item.split_once("::{") {
        let names = names.trim_end_matches('}').split(", ");
        return names.map(|name| format!("{prefix}::{name}")).collect();
    }
    match item.split_once(": ") {
        Some((owner, traits)) => {
            traits.split(" + ").map(|name| bare(&format!("{owner}:{name}"))).collect()
        }
        None => vec![bare(item)],
    }
}

/// Without spaces and lifetimes, which a table leaves out; `()` stands for any `T`.
fn bare(item: &str) -> String {
    let mut bare = String::new();
    let mut characters = item.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\'' {
            while characters.next_if(|c| c.is_alphanumeric() || *c == '_').is_some() {}
            characters.next_if_eq(&',');
        } else if !character.is_whitespace() {
            bare.push(character);
        }
    }
    bare.replace("<>", "").replace("<()>", "<T>")
}

#[test]
fn each_line_is_proved_and_each_proof_has_a_line() {
    let mut complaints = Vec::new();
    let absent: Vec<_> = absent::bounds().iter().map(|bound| bare(bound)).collect();
    for table in tables() {
        let set = |names: &[&str]| names.iter().map(|name| bare(name)).collect::<BTreeSet<_>>();
        let (twins, theirs) = (set(&table.twins), set(&table.left_to_std));
        let mut lines = BTreeSet::new();
        for row in rows(&table) {
            for item in &row.items {
                let complaint = match row.verdict {
                    "same" if !twins.contains(item) => "has no proof",
                    "differs" if row.note.is_empty() => "does not say how it differs",
                    "differs" if !twins.contains(item) => "has no proof",
                    "std's" if !theirs.contains(item) => "is not proved to be std's",
                    "absent" if row.note.is_empty() => "does not say why it is not there",
                    "absent" if twins.contains(item) || theirs.contains(item) => "is there",
                    "absent"
                        if item.contains('<') && !absent.contains(&item.replace(':', ":!")) =>
                    {
                        "is not proved to be absent"
                    }
                    "same" | "differs" | "std's" | "absent" if lines.contains(item) => "is twice",
                    "same" | "differs" | "std's" | "absent" => "",
                    _ => "has a verdict that the key does not explain",
                };
                if !complaint.is_empty() {
                    complaints.push(format!("{}: {item} {complaint}", table.name));
                }
                lines.insert(item.clone());
            }
        }
        let unlisted = twins.union(&theirs).filter(|item| !lines.contains(*item));
        complaints.extend(unlisted.map(|item| format!("{}: {item} has no line", table.name)));
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
