//! The layers of `crates/ramie/src`, and how large a knot of its modules may be.
//!
//! | a module | may name |
//! |---|---|
//! | of `core/` | `core/` |
//! | of `op/` | `core/`, `op/` |
//! | above | both, and those that stand before it in [`ABOVE`] |
//!
//! A module of `crates/ramie-driver/src` names only those that stand before it in [`DRIVER`].

use std::collections::{BTreeMap, BTreeSet};

use super::{fail_if_any, imports, sources};

/// The modules above `op/`, each before those that may name it.
const ABOVE: &[&str] = &[
    "fiber",
    "thread",
    "time",
    "channel",
    "sync",
    "future",
    "actor",
    "structured",
    "policy",
    "metrics",
    "handler",
    "unwind",
    "inspect",
    "deadlock",
    "stall",
    "runtime",
    "ring",
    "fs",
    "net",
    "process",
    "os",
    "io",
    "signal",
    "prefork",
    "panic",
    "parity",
];

/// How many modules may name one another, directly or by way of others. Each of `core/` counts.
const LARGEST_KNOT: usize = 6;
/// In the driver no two may.
const LARGEST_KNOT_OF_THE_DRIVER: usize = 1;

/// The modules of the driver, each before those that may name it: system calls; plain data; ops and
/// what they point to; the backends; the driver.
const DRIVER: &[&str] = &[
    "primitive",
    "visible",
    "logging",
    "sys",
    "error",
    "feature",
    "variables",
    "choice",
    "submitter",
    "config",
    "mask",
    "why_refused",
    "region",
    "remote",
    "registration",
    "wake",
    "fixed",
    "buffer",
    "injected",
    "injected_absent",
    "call",
    "caps",
    "op",
    "completed",
    "multishot",
    "backend",
    "poll",
    "uring",
    "faults",
    "driver",
    "report",
];

/// A source of one crate: its path below `src`, and its text.
type Source = (String, String);

/// For each module those that it names, each with a place where it does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

fn sources_of(folder: &str) -> Vec<Source> {
    let below = |(name, text): Source| Some((name.strip_prefix(folder)?.to_owned(), text));
    let found: Vec<_> = sources().into_iter().filter_map(below).collect();
    assert!(found.len() > 10, "{folder} has no sources");
    found
}

/// The path of the module that a file is.
fn module_of(file: &str) -> Vec<String> {
    let mut path: Vec<_> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    path
}

/// The module, or the module of `core/`, that a path lies in.
fn room_of(path: &[String], rooms: &BTreeSet<String>) -> Option<String> {
    let first = path.first()?;
    if first == "core" {
        let inner = path.get(1).map(|second| format!("core/{second}"));
        return inner.filter(|inner| rooms.contains(inner)).or_else(|| Some("core".to_owned()));
    }
    rooms.contains(first).then(|| first.clone())
}

fn rooms_of(files: &[Source]) -> BTreeSet<String> {
    let room = |(file, _): &Source| match module_of(file).as_slice() {
        [] => None,
        [first] => Some(first.clone()),
        [first, second, ..] if first == "core" => Some(format!("core/{second}")),
        [first, ..] => Some(first.clone()),
    };
    files.iter().filter_map(room).collect()
}

fn graph_of(files: &[Source]) -> Graph {
    let rooms = rooms_of(files);
    let root = files.iter().find(|(file, _)| file == "lib.rs").expect("a crate has a root");
    let exported: BTreeMap<_, _> = imports::read(&[], &root.1)
        .into_iter()
        .filter(|import| import.name != import.path[0])
        .map(|import| (import.name, import.path))
        .collect();
    let mut graph = Graph::new();
    for (file, text) in files.iter().filter(|(file, _)| file != "lib.rs") {
        let module = module_of(file);
        let from = room_of(&module, &rooms).expect("each file lies in a module");
        let named = graph.entry(from.clone()).or_default();
        for import in imports::read(&module, text) {
            // A name of the root may stand for one below.
            let path = import.path.first().and_then(|first| exported.get(first));
            let room = room_of(path.unwrap_or(&import.path), &rooms);
            if let Some(to) = room.filter(|to| *to != from) {
                let place =
                    format!("{file}:{}: {from} names {}", import.line, import.path.join("::"));
                named.entry(to).or_insert(place);
            }
        }
    }
    graph
}

/// The names in a module that it must not use, by the table above.
fn upward(graph: &Graph) -> Vec<String> {
    let rank = |room: &str| ABOVE.iter().position(|above| *above == room);
    let is_core = |room: &str| room == "core" || room.starts_with("core/");
    let mut complaints = Vec::new();
    for (from, named) in graph {
        for (to, place) in named {
            let why = match (rank(from), rank(to)) {
                _ if is_core(from) && !is_core(to) => "core/ names nothing above it",
                _ if is_core(to) || is_core(from) => continue,
                _ if from == "op" => "op/ names core/ only",
                (None, _) => "say in ABOVE where this module stands",
                (Some(_), None) if to == "op" => continue,
                (Some(from), Some(to)) if to < from => continue,
                (Some(_), _) => "a module names only those before it in ABOVE",
            };
            complaints.push(format!("{place}: {why}"));
        }
    }
    complaints
}

/// What a module names though it does not stand before it in `order`.
fn out_of_order(graph: &Graph, order: &[&str]) -> Vec<String> {
    let rank = |room: &str| order.iter().position(|ranked| *ranked == room);
    let edges = graph.iter().flat_map(|(from, named)| named.iter().map(move |edge| (from, edge)));
    let wrong = edges.filter(|(from, (to, _))| rank(to).is_none() || rank(to) >= rank(from));
    let wrong = wrong.map(|(_, (_, place))| format!("{place}: it does not stand before it"));
    let unranked = graph.keys().filter(|room| rank(room).is_none());
    wrong.chain(unranked.map(|room| format!("{room}: say where this module stands"))).collect()
}

/// All modules that one names, directly or by way of others.
fn reached<'a>(graph: &'a Graph, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(room) = left.pop() {
        for to in graph.get(room).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(to.as_str()) {
                left.push(to);
            }
        }
    }
    found
}

/// The sets of modules that name one another, directly or by way of others.
fn knots(graph: &Graph) -> BTreeSet<Vec<&str>> {
    let mut found = BTreeSet::new();
    for room in graph.keys() {
        let comes_back = |other: &&str| reached(graph, other).contains(room.as_str());
        let knot: Vec<_> = reached(graph, room).into_iter().filter(comes_back).collect();
        if knot.len() > 1 {
            found.insert(knot);
        }
    }
    found
}

fn large_knots(graph: &Graph, most: usize) -> Vec<String> {
    let large = knots(graph).into_iter().filter(|knot| knot.len() > most);
    large.map(|knot| format!("{} modules name one another: {knot:?}", knot.len())).collect()
}

#[test]
fn each_layer_names_only_those_below() {
    fail_if_any(upward(&graph_of(&sources_of("crates/ramie/src/"))));
}

#[test]
fn knots_of_modules_are_small() {
    let (ramie, driver) = ("crates/ramie/src/", "crates/ramie-driver/src/");
    fail_if_any(large_knots(&graph_of(&sources_of(ramie)), LARGEST_KNOT));
    fail_if_any(large_knots(&graph_of(&sources_of(driver)), LARGEST_KNOT_OF_THE_DRIVER));
}

#[test]
fn a_module_of_the_driver_names_only_those_below() {
    fail_if_any(out_of_order(&graph_of(&sources_of("crates/ramie-driver/src/")), DRIVER));
}

#[test]
fn a_planted_import_in_the_driver_is_found() {
    for (file, text, expected) in [
        ("wake.rs", "use crate::{poll::Poll, sys};", "wake.rs:1: wake names poll::Poll"),
        ("sys/planted.rs", "fn f() { crate::op::g() }", "sys/planted.rs:1: sys names op::g"),
        // By way of the root, which re-exports it.
        ("uring/planted.rs", "use crate::Driver;", "uring/planted.rs:1: uring names Driver"),
        ("planted.rs", "//! x", "planted: say where"),
    ] {
        let mut files = sources_of("crates/ramie-driver/src/");
        files.insert(0, (file.to_owned(), text.to_owned()));
        let complaints = out_of_order(&graph_of(&files), DRIVER);
        let is_expected = complaints.len() == 1 && complaints[0].starts_with(expected);
        assert!(is_expected, "expected {expected:?}, found {complaints:?}");
    }
}

/// Names that must be found, each in a file that is not there.
#[test]
fn a_planted_import_is_found() {
    let planted = [
        (
            "core/wait/planted.rs",
            "//! x\nuse crate::{\n    fs::File,\n};",
            3,
            "core/wait",
            "fs::File",
        ),
        (
            "core/planted.rs",
            "fn f() {\n    crate::op::own_fd(0);\n}",
            2,
            "core/planted",
            "op::own_fd",
        ),
        ("op/planted.rs", "use super::super::io::copy;", 1, "op", "io::copy"),
        // By way of the root, which re-exports it.
        ("op/planted.rs", "use crate::Runtime;", 1, "op", "Runtime"),
        ("fs/planted.rs", "macro_rules! m {\n() => { $crate::net::x() }\n}", 2, "fs", "net::x"),
        ("planted.rs", "use crate::fs::File;", 1, "planted", "fs::File"),
    ];
    for (file, text, line, room, path) in planted {
        let mut files = sources_of("crates/ramie/src/");
        // First, because of several places that name the same module the first one is given.
        files.insert(0, (file.to_owned(), text.to_owned()));
        let complaints = upward(&graph_of(&files));
        let expected = format!("{file}:{line}: {room} names {path}: ");
        assert!(
            complaints.len() == 1 && complaints[0].starts_with(&expected),
            "expected {expected:?}, found {complaints:?}"
        );
    }
}

#[test]
fn a_planted_knot_is_found() {
    let planted = [
        ("crates/ramie/src/", "core/spin_lock", "use super::super::worker::Worker;", LARGEST_KNOT),
        ("crates/ramie-driver/src/", "sys", "use crate::Driver;", LARGEST_KNOT_OF_THE_DRIVER),
    ];
    for (folder, room, text, most) in planted {
        let mut files = sources_of(folder);
        files.push((format!("{room}/planted.rs"), text.to_owned()));
        let complaints = large_knots(&graph_of(&files), most);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains(&format!("{room:?}")), "{complaints:?}");
    }
}
