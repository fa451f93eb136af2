//! A crate on fibers.

use std::{env, error::Error, net::SocketAddr};

/// What a section returns; assertions may also panic.
pub(crate) type Tried = Result<(), Box<dyn Error + Send + Sync>>;

/// The heading of the page under which a crate stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Web,
    Rpc,
    Tls,
    Database,
    Protocol,
    Format,
    Computing,
    Diagnosis,
    Threads,
}

impl Kind {
    pub(crate) const ALL: [(Kind, &str); 9] = [
        (Kind::Web, "HTTP and WebSocket"),
        (Kind::Rpc, "RPC"),
        (Kind::Tls, "TLS"),
        (Kind::Database, "Databases"),
        (Kind::Protocol, "Mail, files, directories, shells"),
        (Kind::Format, "Formats and compression"),
        (Kind::Computing, "Computing"),
        (Kind::Diagnosis, "Logs and spans"),
        (Kind::Threads, "Threads and locks"),
    ];
}

/// How a crate works on fibers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// As it is: it takes streams, or it does not wait.
    Unchanged,
    /// Its futures need only an executor and a stream: `ramie::future::block_on` and
    /// `ramie_futures::Io`.
    Futures,
    /// Its futures need tokio's runtime beside the fibers: `ramie_futures::block_on_with`.
    BesideTokio,
    /// With an adapter to copy, whose source this is.
    Copy(&'static str),
    /// With this feature of `ramie-adapters`.
    Adapter(&'static str),
    /// In `ramie::blocking`, or by a `Blocking` of `ramie-adapters`.
    Pool,
    /// It blocks the worker; the note names what to use instead. The section shows both.
    Blocks,
}

impl Way {
    pub(crate) fn text(self) -> String {
        match self {
            Way::Unchanged => "unchanged".to_owned(),
            Way::Futures => "unchanged, its futures on fibers".to_owned(),
            Way::BesideTokio => "beside tokio's threads, by `block_on_with`".to_owned(),
            Way::Copy(source) => format!("with an adapter of {} lines", lines_of_code(source)),
            Way::Adapter(feature) => format!("by the feature `{feature}` of `ramie-adapters`"),
            Way::Pool => "on the blocking pool".to_owned(),
            Way::Blocks => "it blocks the worker".to_owned(),
        }
    }
}

/// Lines that are neither empty nor comments.
fn lines_of_code(source: &str) -> usize {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    source.lines().filter(is_code).count()
}

/// A crate, how it works, and the proof.
#[derive(Clone, Copy)]
pub(crate) struct Section {
    /// The name of the crate; that of `reqwest::blocking` is one, too.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) way: Way,
    /// What is at the other end.
    pub(crate) against: &'static str,
    /// A sentence for users, in Markdown.
    pub(crate) note: &'static str,
    /// The file of the section, below `ecosystem/src/sections`.
    pub(crate) file: &'static str,
    /// The variables that `ecosystem/servers` sets for the servers that it needs.
    pub(crate) needs: &'static [&'static str],
    /// The size of all stacks of fibers. Another one than the default needs a sentence in the note.
    pub(crate) stack_size: usize,
    /// Runs on a fiber.
    pub(crate) run: fn() -> Tried,
    /// A section that must fail, which proves that the harness notices.
    pub(crate) is_canary: bool,
}

impl Section {
    /// The defaults for the fields that a section does not set: `..Section::new(NAME, FILE, run)`.
    pub(crate) const fn new(name: &'static str, file: &'static str, run: fn() -> Tried) -> Self {
        Section {
            name,
            kind: Kind::Format,
            way: Way::Unchanged,
            against: "itself",
            note: "",
            file,
            needs: &[],
            stack_size: 256 << 10,
            run,
            is_canary: false,
        }
    }

    /// The first server that it needs and that does not run.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.needs.iter().find(|variable| env::var_os(variable).is_none()).copied()
    }
}

/// The address of a server that `ecosystem/servers` has started.
///
/// # Panics
/// If it does not run; so a section names it in `needs`.
pub(crate) fn server(variable: &str) -> SocketAddr {
    let address = env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
    address.parse().unwrap_or_else(|_| panic!("{variable} is no address: {address}"))
}
