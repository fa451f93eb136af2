//! The machine, the build and the date of the measurements.

use std::{fs, num::NonZero, thread};

use jiff::Zoned;
use serde::Serialize;

/// The facts that a reader needs to judge a figure.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cpus: usize,
    pub(super) memory: String,
    pub(super) kernel: String,
    pub(super) ramie: String,
    pub(super) commit: String,
    pub(super) toolchain: String,
    pub(super) profile: String,
    pub(super) date: String,
}

impl Machine {
    pub(super) fn found(now: &Zoned) -> Self {
        let uname = rustix::system::uname();
        let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
        Machine {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| text(uname.machine())),
            cpus: thread::available_parallelism().map_or(1, NonZero::get),
            memory: memory().unwrap_or_else(unknown),
            kernel: format!(
                "{} {} {}",
                text(uname.sysname()),
                text(uname.release()),
                text(uname.machine())
            ),
            ramie: env!("CARGO_PKG_VERSION").to_owned(),
            commit: or_unknown(env!("RAMIE_BUILD_COMMIT")),
            toolchain: or_unknown(env!("RAMIE_BUILD_TOOLCHAIN")),
            profile: or_unknown(env!("RAMIE_BUILD_PROFILE")),
            date: now.strftime("%Y-%m-%d %H:%M %Z").to_string(),
        }
    }

    /// The rows of the report's table of facts.
    pub(super) fn rows(&self) -> [(&'static str, &str); 8] {
        [
            ("CPU", &self.cpu),
            ("Memory", &self.memory),
            ("Kernel", &self.kernel),
            ("Date", &self.date),
            ("Ramie", &self.ramie),
            ("Commit", &self.commit),
            ("Toolchain", &self.toolchain),
            ("Profile", &self.profile),
        ]
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { unknown() } else { text.to_owned() }
}

fn memory() -> Option<String> {
    let kib: f64 =
        field("/proc/meminfo", "MemTotal")?.trim_end_matches("kB").trim().parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
