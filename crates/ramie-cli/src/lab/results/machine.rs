//! The machine, the build and the date of the measurements.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hasher},
    num::NonZero,
    thread,
};

use jiff::Zoned;
use serde::{Deserialize, Serialize};

/// The facts that a reader needs to judge a figure.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) ramie: String,
    pub(crate) commit: String,
    pub(crate) toolchain: String,
    pub(crate) profile: String,
    pub(crate) date: String,
    /// The name of a virtual machine's host, or `no`.
    pub(crate) virtual_machine: String,
    /// How the kernel chooses the frequency of the first CPU.
    pub(crate) governor: String,
    /// The kernel's answers to the flaws of the CPU, by the names of the flaws.
    pub(crate) mitigations: BTreeMap<String, String>,
    /// The flags of the compiler.
    pub(crate) flags: String,
    /// A number that changes with each byte of the program.
    pub(crate) program: String,
}

impl Machine {
    pub(crate) fn found(now: &Zoned) -> Self {
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
            virtual_machine: virtual_machine(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .unwrap_or_else(|| "not visible".to_owned()),
            mitigations: mitigations(),
            flags: env!("RAMIE_BUILD_FLAGS").to_owned(),
            program: program().unwrap_or_else(unknown),
        }
    }

    /// The facts that have to be the same for two measurements to be one.
    fn identity(&self) -> [(&'static str, String); 13] {
        [
            ("CPU", self.cpu.clone()),
            ("number of CPUs", self.cpus.to_string()),
            ("memory", self.memory.clone()),
            ("kernel", self.kernel.clone()),
            ("virtual machine", self.virtual_machine.clone()),
            ("governor", self.governor.clone()),
            ("list of mitigations", self.mitigated()),
            ("version of ramie", self.ramie.clone()),
            ("commit", self.commit.clone()),
            ("toolchain", self.toolchain.clone()),
            ("profile", self.profile.clone()),
            ("list of flags", self.flags.clone()),
            ("build of the program", self.program.clone()),
        ]
    }

    /// The first fact of another machine or program that differs, as a clause.
    pub(crate) fn difference(&self, now: &Machine) -> Option<String> {
        let ((name, then), now) = self.differing(now, usize::MAX)?;
        Some(format!("its {name} was {then}, and is {now} now"))
    }

    /// The first fact of the hardware or the kernel that differs, as a clause.
    pub(crate) fn other_hardware(&self, new: &Machine) -> Option<String> {
        let ((name, old), new) = self.differing(new, 7)?;
        Some(format!("the {name} is {old} in the old lab and {new} in the new one"))
    }

    fn differing(&self, other: &Machine, count: usize) -> Option<((&'static str, String), String)> {
        let mut pairs = self.identity().into_iter().zip(other.identity()).take(count);
        let (ours, (_, theirs)) = pairs.find(|(ours, theirs)| ours != theirs)?;
        Some((ours, theirs))
    }

    /// The mitigations that are in effect, in one line.
    fn mitigated(&self) -> String {
        let affected = self.mitigations.iter().filter(|(_, state)| *state != "Not affected");
        let all: Vec<_> = affected.map(|(flaw, state)| format!("{flaw}: {state}")).collect();
        if all.is_empty() { "none needed or visible".to_owned() } else { all.join("; ") }
    }

    /// The rows of the report's table of facts.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let text = |text: &String| text.clone();
        vec![
            ("CPU", format!("{}, {} CPUs", self.cpu, self.cpus)),
            ("Virtual machine", text(&self.virtual_machine)),
            ("Memory", text(&self.memory)),
            ("Kernel", text(&self.kernel)),
            ("Governor", text(&self.governor)),
            ("Date", text(&self.date)),
            ("Ramie", text(&self.ramie)),
            ("Commit", text(&self.commit)),
            ("Toolchain", text(&self.toolchain)),
            ("Profile", text(&self.profile)),
            ("Flags", text(&self.flags)),
            // The longest, in a row of its own.
            ("Mitigations", self.mitigated()),
        ]
    }
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|line| !line.is_empty())
}

/// The CPU of a virtual machine announces a hypervisor; the firmware may name it.
fn virtual_machine() -> String {
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    let is_virtual = flags.split(' ').any(|flag| flag == "hypervisor");
    let named = || {
        let of_firmware = ["/sys/hypervisor/type", "/sys/class/dmi/id/product_name"];
        of_firmware
            .into_iter()
            .find_map(line)
            .unwrap_or_else(|| "yes, of an unknown host".to_owned())
    };
    if is_virtual { named() } else { "no, or not visible".to_owned() }
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(files) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    let flaw = |file: fs::DirEntry| {
        let state = line(file.path().to_str()?)?;
        Some((file.file_name().into_string().ok()?, state))
    };
    files.filter_map(Result::ok).filter_map(flaw).collect()
}

fn program() -> Option<String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read("/proc/self/exe").ok()?);
    Some(format!("{:016x}", hasher.finish()))
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
