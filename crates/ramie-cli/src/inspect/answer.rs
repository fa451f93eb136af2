//! The JSON of a summary, as a process answers it.
//!
//! Members that are not needed are ignored, so that a newer process can be inspected.

use serde::Deserialize;

#[derive(Deserialize, Debug)]
pub(super) struct SummaryAnswer {
    pub(super) process: u32,
    pub(super) at_us: u64,
    pub(super) workers: Vec<AnsweredWorker>,
    pub(super) states: States,
    pub(super) places: Vec<AnsweredPlace>,
    pub(super) waiting_elsewhere: u64,
    pub(super) slowest: Vec<AnsweredStrand>,
    /// An older process does not have it.
    #[serde(default)]
    pub(super) awaited: Vec<AnsweredName>,
    pub(super) stalls: Vec<AnsweredStall>,
    pub(super) spawned: u64,
    pub(super) ended: u64,
    pub(super) resumed: u64,
    pub(super) took_ms: u64,
}

#[derive(Deserialize, Debug)]
pub(super) struct AnsweredWorker {
    pub(super) index: Option<usize>,
    pub(super) thread_name: Option<String>,
    pub(super) thread_id: i32,
    pub(super) status: String,
    pub(super) fibers: u64,
    pub(super) runnable: u64,
    pub(super) waiting: u64,
    pub(super) run_queue: Option<u64>,
    pub(super) cpu_us: Option<u64>,
}

#[derive(Deserialize, serde::Serialize, Debug, Clone, Copy, Default)]
pub(crate) struct States {
    pub(crate) not_started: u64,
    pub(crate) running: u64,
    pub(crate) runnable: u64,
    pub(crate) waiting: u64,
}

#[derive(Deserialize, Debug)]
pub(super) struct AnsweredPlace {
    pub(super) purpose: String,
    pub(super) location: Location,
    pub(super) strands: u64,
    pub(super) longest_ms: u64,
}

#[derive(Deserialize, Debug)]
pub(super) struct Location {
    pub(super) file: String,
    pub(super) line: u32,
}

#[derive(Deserialize, Debug)]
pub(super) struct AnsweredStrand {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) worker: Option<usize>,
    pub(super) wait: Option<Wait>,
}

/// The name of a strand that is awaited.
#[derive(Deserialize, Debug)]
pub(super) struct AnsweredName {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct Wait {
    pub(super) purpose: String,
    pub(super) target: Target,
    pub(super) location: Location,
    pub(super) since_ms: u64,
    pub(super) left_ms: Option<u64>,
}

#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Target {
    Descriptor {
        fd: i32,
        name: Option<String>,
    },
    Mutex {
        address: u64,
        owner: Option<String>,
    },
    RwLock {
        address: u64,
        writer: Option<String>,
        readers: u64,
    },
    Channel {
        address: u64,
    },
    Object {
        address: u64,
    },
    Scope {
        address: u64,
    },
    Select {
        arms: u64,
    },
    Strand {
        id: String,
    },
    /// Nothing that could be named, or a kind that a newer process has.
    #[serde(other)]
    None,
}

#[derive(Deserialize, Debug)]
pub(super) struct AnsweredStall {
    pub(super) ago_ms: u64,
    pub(super) fiber: String,
    pub(super) worker: usize,
    pub(super) lasted_ms: u64,
    pub(super) has_ended: bool,
    pub(super) cause: String,
}
