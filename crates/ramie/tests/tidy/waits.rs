//! Everything that waits does so through `core/wait`.

use super::{fail_if_any, sources};

/// Calls that take a strand off its thread, and the files below `crates/ramie/src` that make them.
/// To prepare a wait and to suspend what was prepared is the protocol of `core/wait/park.rs`, which
/// all may follow.
const SUSPENDING: &[(&str, &[&str])] = &[
    // The switch itself.
    ("yielder.suspend(", &["core/worker/fiber_stack.rs"]),
    // A plain wait; in the worker, `switch_out` and `yield_now`, which is no wait, and the cold
    // path of both for a fiber that holds contexts.
    ("stack.suspend(", &["core/wait/plain.rs", "core/worker/mod.rs", "core/worker/contexts.rs"]),
    // A hook, which suspends no strand.
    (".context.suspend(", &["core/local/attached.rs"]),
    ("self.suspend(", &["core/wait/park.rs"]),
    (".switch_out(", &["core/wait/park.rs"]),
];

/// The complaint about a line of code, if it suspends a strand past `core/wait`.
fn complaint(file: &str, line: &str) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    let known = SUSPENDING.iter().find(|(call, _)| code.contains(call));
    let is_allowed = match known {
        Some((_, files)) => files.contains(&file),
        None => {
            let begins_here = code.contains("prepared.suspend(") || code.contains("prepare(");
            begins_here || !code.contains(".suspend(")
        }
    };
    (!is_allowed).then(|| format!("it suspends a strand; wait through core/wait: {}", code.trim()))
}

#[test]
fn everything_waits_through_the_wait_module() {
    let mut seen = 0;
    let mut complaints = Vec::new();
    for (name, text) in sources() {
        let Some(file) = name.strip_prefix("crates/ramie/src/") else { continue };
        for (number, line) in text.lines().enumerate() {
            seen += usize::from(line.contains("suspend("));
            let found = complaint(file, line);
            complaints.extend(found.map(|why| format!("{name}:{}: {why}", number + 1)));
        }
    }
    assert!(seen > 10, "the calls that suspend have another name now: follow it here");
    fail_if_any(complaints);
}

#[test]
fn a_wait_past_the_module_is_found() {
    assert!(complaint("net/udp.rs", "        stack.suspend();").is_some());
    assert!(complaint("sync/mutex.rs", "    worker.current_strand().suspend();").is_some());
    assert!(complaint("fiber/mod.rs", "    worker.switch_out();").is_some());
    assert!(complaint("sync/mutex.rs", "    prepared.suspend(); // or stack.suspend()").is_none());
}
