//! Generates the trees of modules that the checker runs: one of the shipped sources, and one for
//! each canary, with the canary's bug written into the file that it names.
//!
//! A tree is the files of `tree/` (the models, and stand-ins for modules that the protocols use)
//! and the [`SHIPPED`] files, word for word except for [`adapt_shipped`] and [`SCALED`].

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

mod canaries;

use canaries::{CANARIES, Canary};

const SOURCES: &str = "../crates/ramie/src";
/// Shipped files outside the sources of `ramie`, or at another path there.
const ELSEWHERE: &[(&str, &str)] =
    &[("handshake.rs", "../crates/ramie-driver/src/uring/handshake.rs")];

fn source(file: &str) -> PathBuf {
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == file);
    elsewhere.map_or_else(|| Path::new(SOURCES).join(file), |(_, path)| PathBuf::from(path))
}

/// The files that are checked, and the files that they need.
const SHIPPED: &[&str] = &[
    "channel/arm.rs",
    "channel/core.rs",
    "channel/error.rs",
    "channel/futures.rs",
    "channel/receiver.rs",
    "channel/remote_hint.rs",
    "channel/select.rs",
    "channel/sender.rs",
    "channel/state.rs",
    "channel/timed.rs",
    "channel/waiters.rs",
    "core/cancel/error.rs",
    "core/cancel/frame.rs",
    "core/cancel/handle.rs",
    "core/cancel/mod.rs",
    "core/cancel/node.rs",
    "core/cancel/chain.rs",
    "core/cancel/partial.rs",
    "core/cancel/steps.rs",
    "core/spin_lock.rs",
    "core/strand/header.rs",
    "core/strand/id.rs",
    "core/trace/buffer.rs",
    "core/wait/completion.rs",
    "core/wait/park.rs",
    "core/wait/parking_lot.rs",
    "core/wait/record.rs",
    "core/wait/word.rs",
    "core/worker/ending.rs",
    "core/worker/outside.rs",
    "core/worker/shared.rs",
    "core/worker/stealing.rs",
    "core/worker/workers.rs",
    "handshake.rs",
    "sync/broadcast/error.rs",
    "sync/broadcast/mod.rs",
    "sync/broadcast/ring.rs",
    "sync/condvar.rs",
    "sync/event.rs",
    "sync/mutex.rs",
    "sync/once.rs",
    "sync/oneshot.rs",
    "sync/poison.rs",
    "sync/raw_mutex.rs",
    "sync/raw_rwlock.rs",
    "sync/rwlock.rs",
    "sync/semaphore.rs",
    "sync/watch/mod.rs",
    "sync/watch/receiver.rs",
    "sync/watch/sender.rs",
];

/// Modules that a canary's tree is without unless its model is among these, because the compiler
/// takes its time for each. A module that is in no list is in every tree.
const OPTIONAL: &[(&str, &[&str])] = &[
    ("channel", &["channel", "models::cancel_points"]),
    ("channel/models", &["channel::models"]),
    ("channel/select_models", &["channel::select_models"]),
    ("core/wait/parking_lot", &["models::parking_lot", "models::oneshot", "models::cancel_points"]),
    ("core/wait/parking_lot", &["models::event", "models::mutex", "models::rwlock"]),
    ("core/wait/parking_lot", &["models::semaphore", "models::broadcast", "models::condvar"]),
    ("core/wait/parking_lot", &["models::once", "models::watch"]),
    ("core/worker/ending", &["core::worker::workers_models"]),
    ("core/worker/entrance", &["core::worker::workers_models"]),
    ("core/worker/lingering", &["core::worker::workers_models"]),
    ("core/worker/outside", &["core::worker::workers_models"]),
    ("core/worker/spread", &["core::worker::workers_models"]),
    ("core/worker/stealing", &["core::worker::workers_models"]),
    ("core/worker/workers", &["core::worker::workers_models"]),
    ("core/worker/workers_models", &["core::worker::workers_models"]),
    ("core/trace", &["models::trace_buffer"]),
    ("deque", &["core::worker::workers_models"]),
    ("handshake", &["models::handshake"]),
    ("models/broadcast", &["models::broadcast"]),
    ("models/cancel", &["models::cancel"]),
    ("models/cancel_points", &["models::cancel_points"]),
    ("models/completion", &["models::completion"]),
    ("models/condvar", &["models::condvar"]),
    ("models/event", &["models::event"]),
    ("models/handshake", &["models::handshake"]),
    ("models/mutex", &["models::mutex"]),
    ("models/once", &["models::once"]),
    ("models/oneshot", &["models::oneshot"]),
    ("models/park", &["models::park"]),
    ("models/parking_lot", &["models::parking_lot"]),
    ("models/rwlock", &["models::rwlock"]),
    ("models/semaphore", &["models::semaphore"]),
    ("models/sleep", &["models::sleep"]),
    ("models/spin_lock", &["models::spin_lock"]),
    ("models/trace_buffer", &["models::trace_buffer"]),
    ("models/watch", &["models::watch"]),
    ("sync/broadcast", &["models::broadcast"]),
    ("sync/condvar", &["models::condvar"]),
    ("sync/event", &["models::event"]),
    ("sync/mutex", &["models::mutex", "models::condvar", "models::cancel_points"]),
    ("sync/once", &["models::once"]),
    ("sync/oneshot", &["models::oneshot", "models::cancel_points"]),
    ("sync/raw_mutex", &["models::mutex", "models::condvar", "models::cancel_points"]),
    ("sync/raw_rwlock", &["models::rwlock", "models::watch", "models::cancel_points"]),
    ("sync/rwlock", &["models::rwlock", "models::watch", "models::cancel_points"]),
    ("sync/semaphore", &["models::semaphore", "models::cancel_points"]),
    ("sync/watch", &["models::watch"]),
];

fn needs(canary: &Canary, module: &str) -> bool {
    let mut lists = OPTIONAL.iter().filter(|optional| optional.0 == module).peekable();
    lists.peek().is_none()
        || lists.any(|(_, models)| models.iter().any(|model| canary.model.starts_with(model)))
}

/// Removes the modules that the canary's model does not need.
fn prune(place: &Path, text: &str, canary: Option<&Canary>) -> String {
    let Some(canary) = canary else { return text.to_owned() };
    let folder = place.parent().expect("a file lies in a folder");
    let is_wanted = |line: &&str| {
        let module = line.strip_suffix(';').and_then(|line| line.split_once("mod "));
        module.is_none_or(|(_, name)| needs(canary, &folder.join(name).to_string_lossy()))
    };
    text.split_inclusive('\n').filter(|line| is_wanted(&line.trim_end())).collect()
}

/// Puts a source into the tree `name`: `crate` refers to that tree, and stand-ins replace other
/// crates.
fn adapt(name: &str, text: &str) -> String {
    text.replace("crate::", &format!("crate::{name}::"))
        .replace("crossbeam_deque::", &format!("crate::{name}::deque::"))
        .replace("ramie_coro::", &format!("crate::{name}::coro::"))
        .replace("ramie_driver::", &format!("crate::{name}::driver::"))
}

/// Puts a shipped source into the tree `name`. There `new` is not `const`, because the `new` of the
/// model checker's atomics is not, and threads are the model checker's.
fn adapt_shipped(name: &str, text: &str) -> String {
    let text = text
        .replace("const fn new()", "fn new()")
        .replace("pub const fn new(", "pub fn new(")
        .replace("std::thread::yield_now", "loom::thread::yield_now")
        .replace("#![doc = include_str!", "// Elsewhere: (");
    adapt(name, &text)
}

/// Numbers too large for a model, and their replacements.
const SCALED: &[(&str, &str, &str)] = &[
    ("core/cancel/node.rs", "const BATCH: usize = 16;", "const BATCH: usize = 1;"),
    ("core/trace/buffer.rs", "const WORDS: usize = 4;", "const WORDS: usize = 2;"),
    ("core/wait/parking_lot.rs", "const BATCH: usize = 16;", "const BATCH: usize = 1;"),
    ("sync/raw_mutex.rs", "const LOSSES: u32 = 16;", "const LOSSES: u32 = 1;"),
    // A lock that is held while the checker switches between the model's threads.
    (
        "sync/broadcast/mod.rs",
        "    sync::{Arc, Mutex, MutexGuard, PoisonError},\n    time::Duration,\n};",
        "    sync::{Arc, PoisonError},\n    time::Duration,\n};\n\
         use loom::sync::{Mutex, MutexGuard};",
    ),
    // A constant, which `new` cannot initialize there.
    (
        "sync/once.rs",
        "/// The initial value of a [`Once`]; twin of [`std::sync::ONCE_INIT`].\n\
         #[allow(clippy::declare_interior_mutable_const)]\n\
         #[deprecated(note = \"use Once::new(); std deprecates its own, too\")]\n\
         pub const ONCE_INIT: Once = Once::new();\n",
        "",
    ),
    ("sync/watch/mod.rs", "use super::{RwLock,", "use super::rwlock::{RwLock,"),
    ("sync/condvar.rs", "use super::{Mutex,", "use super::mutex::{Mutex,"),
];

fn scale(file: &str, text: &str) -> String {
    let mut text = text.to_owned();
    for (_, from, to) in SCALED.iter().filter(|scaled| scaled.0 == file) {
        assert!(text.contains(from), "{file} has no {from:?} any more: see models/build.rs");
        text = text.replace(from, to);
    }
    text
}

/// Writes a canary's bug into the file that it names.
fn spoil(canary: &Canary, text: &str) -> String {
    let places = text.matches(canary.from).count();
    assert!(
        places == 1,
        "the canary {} is to change a text that is {places} times in {}; it must be there once: \
         follow the change of that file in models/canaries.rs",
        canary.name,
        canary.file,
    );
    text.replace(canary.from, canary.to)
}

fn files_under(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() { files_under(&path, found) } else { found.push(path) }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a writable folder");
    fs::write(path, text).expect("a writable folder");
}

fn make_tree(name: &str, out: &Path, stand_ins: &[PathBuf], canary: Option<&Canary>) {
    // A file that was moved since the last build would still be at its old path. The first build
    // finds nothing to remove.
    let _ = fs::remove_dir_all(out.join(name));
    for path in stand_ins {
        let text = fs::read_to_string(path).expect("a readable source");
        let place = path.strip_prefix("tree").expect("listed under tree");
        write(&out.join(name).join(place), &adapt(name, &prune(place, &text, canary)));
    }
    for file in SHIPPED {
        let text = fs::read_to_string(source(file)).expect("a readable source");
        let text = match canary.filter(|canary| canary.file == *file) {
            Some(canary) => spoil(canary, &text),
            None => text,
        };
        write(&out.join(name).join(file), &adapt_shipped(name, &scale(file, &text)));
    }
}

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut stand_ins = Vec::new();
    files_under(Path::new("tree"), &mut stand_ins);
    let mut root = String::new();
    let shipped = ("shipped", None);
    let trees = CANARIES.iter().map(|canary| (canary.name, Some(canary)));
    for (name, canary) in std::iter::once(shipped).chain(trees) {
        make_tree(name, &out, &stand_ins, canary);
        let path = out.join(name).join("mod.rs");
        // Clippy would complain about the bugs of canaries.
        let gate = if canary.is_some() { "#[cfg(not(clippy))]\n" } else { "" };
        writeln!(root, "{gate}#[path = {path:?}]\nmod {name};").expect("writing to a string");
    }
    root.push_str("#[cfg(not(clippy))]\nmod canaries {\n");
    for Canary { name, model, .. } in CANARIES {
        writeln!(root, "canary!({name}, {model});").expect("writing to a string");
    }
    root.push_str("}\n");
    write(&out.join("trees.rs"), &root);
    println!("cargo::rerun-if-changed=tree");
    println!("cargo::rerun-if-changed=canaries.rs");
    SHIPPED.iter().for_each(|file| println!("cargo::rerun-if-changed={}", source(file).display()));
}
