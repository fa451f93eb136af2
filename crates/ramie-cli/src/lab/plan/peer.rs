//! Peers: programs in other languages and on other runtimes that run the same points.
//!
//! `bench/peers/` in the sources of Ramie has them. Each takes the name of a workload and its
//! numbers, checks its own result and prints one line.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    thread,
};

use serde::{Deserialize, Serialize};

use super::{Arm, On, Planned, Point};
use crate::{
    failure::Failure,
    lab::results::Subject,
    output,
    workload::{Engine, Workload},
};

/// The folder into which `bench/peers/build` writes the programs.
const FOLDER: &str = "bench/peers/target";

/// The workloads that peers have, with the names of their numbers in the order of the arguments.
const WORKLOADS: [(&str, &[&str]); 10] = [
    ("feed", &["people", "nutrients"]),
    ("ring", &["size", "hops"]),
    ("spawn", &["count"]),
    ("alive", &["count"]),
    ("switch", &["count"]),
    ("basic", &["yields"]),
    ("recurse", &["depth"]),
    ("recurse2", &["depth"]),
    ("pipe", &["pairs", "messages", "bytes"]),
    ("socketpair", &["pairs", "messages", "bytes"]),
];

/// A program of `bench/peers/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    Go,
    JavaVirtual,
    JavaPlatform,
    BoostFiber,
    Tokio,
    Monoio,
    Compio,
    May,
    Smol,
}

impl Peer {
    pub(crate) const ALL: [Peer; 9] = [
        Peer::Go,
        Peer::JavaVirtual,
        Peer::JavaPlatform,
        Peer::BoostFiber,
        Peer::Tokio,
        Peer::Monoio,
        Peer::Compio,
        Peer::May,
        Peer::Smol,
    ];

    /// The name of its program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Go => "go",
            Peer::JavaVirtual => "java-virtual",
            Peer::JavaPlatform => "java-platform",
            Peer::BoostFiber => "boost-fiber",
            Peer::Tokio => "tokio",
            Peer::Monoio => "monoio",
            Peer::Compio => "compio",
            Peer::May => "may",
            Peer::Smol => "smol",
        }
    }

    /// The noun for one of its tasks.
    pub(crate) fn one(self) -> &'static str {
        match self {
            Peer::Go => "a task of Go",
            Peer::JavaVirtual => "a virtual thread of Java",
            Peer::JavaPlatform => "a platform thread of Java",
            Peer::BoostFiber => "a fiber of Boost",
            Peer::Tokio => "a task of tokio",
            Peer::Monoio => "a task of monoio",
            Peer::Compio => "a task of compio",
            Peer::May => "a coroutine of may",
            Peer::Smol => "a task of smol",
        }
    }

    /// The noun for all of them.
    pub(crate) fn all(self) -> &'static str {
        match self {
            Peer::Go => "tasks of Go",
            Peer::JavaVirtual => "virtual threads of Java",
            Peer::JavaPlatform => "platform threads of Java",
            Peer::BoostFiber => "fibers of Boost",
            Peer::Tokio => "tasks of tokio",
            Peer::Monoio => "tasks of monoio",
            Peer::Compio => "tasks of compio",
            Peer::May => "coroutines of may",
            Peer::Smol => "tasks of smol",
        }
    }

    /// The engine whose costs are those of its tasks, roughly.
    pub(crate) fn model(self) -> Engine {
        if self == Peer::JavaPlatform { Engine::Threads } else { Engine::Fibers }
    }

    pub(crate) fn is_java(self) -> bool {
        matches!(self, Peer::JavaVirtual | Peer::JavaPlatform)
    }

    /// The argument of `bench/peers/build`.
    fn build(self) -> &'static str {
        match self {
            Peer::Go => "go",
            Peer::JavaVirtual | Peer::JavaPlatform => "java",
            Peer::BoostFiber => "cpp",
            Peer::Tokio | Peer::Monoio | Peer::Compio | Peer::May | Peer::Smol => "rust",
        }
    }

    fn has(self, workload: &str) -> bool {
        let is_io = matches!(workload, "pipe" | "socketpair");
        let is_task = matches!(workload, "basic" | "recurse" | "recurse2");
        match self {
            Peer::Go | Peer::JavaVirtual | Peer::JavaPlatform | Peer::Tokio | Peer::Smol => true,
            Peer::BoostFiber => !is_io,
            Peer::Monoio => !is_task && workload != "pipe",
            Peer::Compio => is_io,
            Peer::May => is_io || is_task,
        }
    }

    /// The arguments of its program: a workload and its numbers. `None` if it does not have this
    /// workload in this form.
    pub(crate) fn words(
        self,
        workload: &str,
        params: &BTreeMap<String, u64>,
        words: &BTreeMap<String, String>,
    ) -> Option<Vec<String>> {
        let (name, order) = WORKLOADS.iter().find(|(name, _)| *name == workload)?;
        // Peers yield after each nutrient, and their tasks wait by a yield only.
        let is_ordinary = words.iter().all(|(flag, word)| flag == "call" && word == "medium");
        if !self.has(name) || !is_ordinary || params.len() != order.len() {
            return None;
        }
        let numbers = order.iter().map(|name| params.get(*name).map(u64::to_string));
        std::iter::once(Some((*name).to_owned())).chain(numbers).collect()
    }
}

/// The peers of a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peers {
    pub(crate) folder: PathBuf,
    pub(crate) found: Vec<Peer>,
}

impl Peers {
    /// The programs that are in a folder. Warns of those that are not.
    pub(crate) fn find(folder: Option<&Path>) -> Result<Self, Failure> {
        let folder = folder.unwrap_or(Path::new(FOLDER));
        let is_there = |peer: &Peer| folder.join(peer.name()).is_file();
        let (found, missing): (Vec<_>, Vec<_>) = Peer::ALL.into_iter().partition(is_there);
        if found.is_empty() {
            return Err(Failure::usage(format!(
                "cannot measure peers: {} has no program of a peer; build them by \
                 bench/peers/build in the sources of Ramie, or name their folder with --peers-dir",
                folder.display()
            )));
        }
        for peer in missing {
            output::warn(&format!(
                "skipped the peer {}: {} is not there; build it by `bench/peers/build {}`",
                peer.name(),
                folder.join(peer.name()).display(),
                peer.build()
            ));
        }
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Ok(Peers { folder, found })
    }

    /// Adds a point of each peer behind the points of the same x, so that the peers take turns with
    /// the other arms.
    pub(crate) fn add_to(&self, plan: &mut [Planned]) {
        for Planned { experiment, points } in plan {
            let mut all = Vec::new();
            for group in points.chunk_by(|one, next| one.x == next.x) {
                all.extend_from_slice(group);
                let fibers = group.iter().find(|point| point.arm == Arm::of(Engine::Fibers));
                let Some(Point { workload, x, .. }) = fibers else { continue };
                let of = |peer, workers| {
                    let arm = Arm { workers, ..Arm::of_peer(peer) };
                    Point { workload: *workload, arm, x: *x }
                };
                let runs = |point: &Point| Subject::new(&experiment.name, point).words().is_some();
                for threads in [None].into_iter().chain(threads_of(group).into_iter().map(Some)) {
                    let of_peers = self.found.iter().map(|peer| of(*peer, threads));
                    all.extend(of_peers.filter(runs));
                }
            }
            *points = all;
        }
    }
}

/// The numbers of threads, beside one, on which peers run the points of one x: those of the arms on
/// several workers. Only pairs that exchange messages, because the peers in Rust run nothing else
/// on several threads, and no more threads than CPUs, because no peer starts more by itself.
fn threads_of(group: &[Point]) -> BTreeSet<u32> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let is_exchange =
        |point: &&Point| matches!(point.workload, Workload::Pipe(_) | Workload::Socketpair(_));
    let of = |point: &Point| match (point.arm.on, point.arm.workers) {
        (On::Engine(Engine::Hybrid), None) => Some(cpus),
        (On::Engine(Engine::Hybrid | Engine::Fibers), workers) => workers,
        _ => None,
    };
    let all = group.iter().filter(is_exchange).filter_map(of);
    all.filter(|threads| (2..=cpus).contains(threads)).collect()
}
