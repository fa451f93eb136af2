//! The report of the features that this machine has and refuses, with the likely cause and the
//! remedy of each refusal.
//!
//! Plain data, for a program that prints it. Everything is found by trying.

use std::io;

use rustix::io::Errno;

use crate::backend::Backend;
use crate::caps::{Caps, Refusal};
use crate::choice::{Choice, Kind};
use crate::config::Config;
use crate::driver::Driver;
use crate::feature::{Feature, FeatureSet};
use crate::poll::Poll;
use crate::submitter::Submitter;
use crate::sys::short_lived_ring::on_own_thread;
use crate::sys::{self, Limit};
use crate::uring::Uring;
use crate::why_refused::why_refused;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is available and works.
    Ok,
    /// This kernel does not have it, so a plainer way is used.
    Missing,
    /// The kernel has it, but this process may not use it.
    Refused,
}

impl Outcome {
    /// Returns the outcome in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Missing => "missing",
            Outcome::Refused => "refused",
        }
    }
}

/// The subject of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A whole backend.
    Driver,
    /// A property of a ring.
    Feature,
    /// An op code of io_uring.
    Op,
}

/// One feature that was tried.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its subject.
    pub topic: Topic,
    /// Its name.
    pub name: &'static str,
    /// Its outcome.
    pub outcome: Outcome,
    /// The finding, as half a sentence.
    pub detail: String,
    /// The likely cause, unless it is ok.
    pub cause: Option<String>,
    /// The remedy, unless it is ok.
    pub cure: Option<String>,
}

/// A limit or setting of this system.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name, such as `vm.max_map_count`.
    pub name: &'static str,
    /// Its unit, such as `bytes`.
    pub unit: &'static str,
    /// The present limit; None means unlimited or unknown.
    pub value: Option<u64>,
    /// The value to which it can be raised without the administrator, if that differs.
    pub hard: Option<u64>,
}

/// Everything that was found.
#[derive(Clone, Debug)]
pub struct ProbeReport {
    /// Release of the running kernel.
    pub kernel: String,
    /// The backend that [`Choice::Auto`] selects here; None if neither can be opened.
    pub driver: Option<Kind>,
    /// The reason for this backend, or for the lack of one.
    pub reason: String,
    /// The features that programs get from a ring by default; empty if the backend is not a ring.
    pub features: FeatureSet,
    /// CPUs that this thread may run on.
    pub cpus: usize,
    /// The checks that were made.
    pub checks: Vec<Check>,
    /// Limits and settings that bear on how many fibers and connections fit.
    pub settings: Vec<Setting>,
}

/// Tries everything and reports it.
///
/// # Blocking
/// For some ms: it makes rings and sends an op through one, on another thread.
pub fn probe_report() -> ProbeReport {
    on_own_thread(probe)
}

fn probe() -> ProbeReport {
    let chosen = Driver::open(Choice::Auto, &Config::default());
    let (driver, reason) = match &chosen {
        Ok(driver) => (Some(driver.kind()), driver.reason().to_owned()),
        Err(error) => (None, error.to_string()),
    };
    let mut checks = Vec::new();
    match Uring::open(&Config::default()) {
        Ok(uring) => {
            check_ring(uring.caps(), &mut checks);
            checks.extend([Submitter::Sidecar, Submitter::KERNEL_THREAD].map(check_submitter));
        }
        Err(error) => checks.push(refused("io_uring", &error, why_refused(&error, ""))),
    }
    checks.push(match Poll::open() {
        Ok(_) => ok(Topic::Driver, "epoll", "an epoll set was made".into()),
        Err(error) => {
            let why = ("out of descriptors".into(), "raise `ulimit -n`".into());
            refused("epoll", &error, why)
        }
    });
    ProbeReport {
        kernel: sys::kernel_release(),
        driver,
        reason,
        features: chosen.map_or(FeatureSet::EMPTY, |driver| driver.caps().features),
        cpus: sys::available_cpus(),
        checks,
        settings: settings(),
    }
}

fn ok(topic: Topic, name: &'static str, detail: String) -> Check {
    Check { topic, name, outcome: Outcome::Ok, detail, cause: None, cure: None }
}

fn refused(name: &'static str, error: &io::Error, (cause, cure): (String, String)) -> Check {
    let is_absent = Errno::from_io_error(error) == Some(Errno::NOSYS);
    Check {
        topic: Topic::Driver,
        name,
        outcome: if is_absent { Outcome::Missing } else { Outcome::Refused },
        detail: error.to_string(),
        cause: Some(cause),
        cure: Some(cure),
    }
}

fn check_ring(caps: &Caps, checks: &mut Vec<Check>) {
    let detail = format!(
        "a ring of {} and {} entries was made, and an op went through it",
        caps.sq_entries, caps.cq_entries
    );
    checks.push(ok(Topic::Driver, "io_uring", detail));
    for feature in Feature::ALL {
        let refusal = caps.refused.iter().find(|refusal| refusal.feature == feature);
        checks.push(match refusal {
            Some(refusal) => missing_feature(refusal),
            None if caps.masked.has(feature) => masked_feature(feature.name()),
            None if caps.features.has(feature) => {
                ok(Topic::Feature, feature.name(), "works here".into())
            }
            None => ok(Topic::Feature, feature.name(), "not needed beside the others".into()),
        });
    }
    for op in &caps.ops {
        let mut check = ok(Topic::Op, op.name, "supported".into());
        if op.feature.is_some_and(|feature| caps.masked.has(feature)) {
            check = Check { topic: Topic::Op, ..masked_feature(op.name) };
        } else if !op.supported {
            check.outcome = Outcome::Missing;
            check.detail = "not in the kernel's list of op codes".into();
            check.cause = Some(format!("kernel {} is too old for it", caps.kernel));
            check.cure = Some("a newer kernel; until then a plainer way is used".into());
        }
        checks.push(check);
    }
}

/// Tries a submitter other than the worker.
fn check_submitter(submitter: Submitter) -> Check {
    let config = Config { submitter, ..Config::default() };
    match Uring::open_with_thread(&config) {
        Ok(_) => {
            let detail = "can submit the ops of a busy worker; set RAMIE_SUBMIT to use it";
            ok(Topic::Driver, submitter.name(), detail.into())
        }
        Err(error) => Check {
            topic: Topic::Driver,
            name: submitter.name(),
            outcome: Outcome::Refused,
            detail: error.to_string(),
            cause: Some(format!("{} cannot submit ops here", submitter.described())),
            cure: Some("none needed, because the worker submits its ops itself".into()),
        },
    }
}

fn masked_feature(name: &'static str) -> Check {
    Check {
        topic: Topic::Feature,
        name,
        outcome: Outcome::Refused,
        detail: "not requested".into(),
        cause: Some("RAMIE_CAPS masks it".into()),
        cure: Some("leave RAMIE_CAPS unset, or without it".into()),
    }
}

fn missing_feature(refusal: &Refusal) -> Check {
    let feature = refusal.feature;
    Check {
        topic: Topic::Feature,
        name: feature.name(),
        outcome: Outcome::Missing,
        detail: match refusal.errno {
            Some(errno) => format!("requested, and refused with {errno}"),
            None => "not offered".into(),
        },
        cause: Some(format!("it came with Linux {}", feature.since())),
        cure: Some("a newer kernel; until then a plainer way is used".into()),
    }
}

fn settings() -> Vec<Setting> {
    let limit = |name, unit, Limit { soft, hard }| Setting { name, unit, value: soft, hard };
    let sysctl = |name, unit, path| {
        let value = sys::sysctl(path);
        Setting { name, unit, value, hard: None }
    };
    vec![
        limit("ulimit -n", "descriptors", sys::nofile_limit()),
        limit("ulimit -l", "bytes", sys::memlock_limit()),
        sysctl("vm.max_map_count", "mappings", "vm/max_map_count"),
        sysctl("vm.overcommit_memory", "mode", "vm/overcommit_memory"),
        sysctl("kernel.pid_max", "threads", "kernel/pid_max"),
        sysctl("kernel.threads-max", "threads", "kernel/threads-max"),
        sysctl("kernel.io_uring_disabled", "mode", "kernel/io_uring_disabled"),
        sysctl("net.core.somaxconn", "connections", "net/core/somaxconn"),
    ]
}
