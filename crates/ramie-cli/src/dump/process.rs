//! Processes that may be dumped: facts from /proc, and the places of their sockets.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        net::{SocketAddr, UnixStream},
    },
    path::{Path, PathBuf},
};

use ramie_driver::sys::{self, AddressFamily, SocketType};

const SESSION: &str = "XDG_RUNTIME_DIR";

/// A process, as /proc describes it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The state, by the letter that ps(1) prints.
    pub(super) state: char,
    /// The effective id of its user.
    pub(super) user: u32,
}

impl Process {
    /// Finds a process; `None` if there is none of this id.
    pub(super) fn find(pid: u32) -> Option<Process> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let state = field("State:")?.trim_start().chars().next()?;
        // The real id, the effective one, and others.
        let user = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
        Some(Process { pid, state, user })
    }

    /// Returns its command line.
    pub(super) fn command(&self) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    /// The directories in which its socket may lie: that of its environment first.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let own = env::var_os(SESSION).filter(|_| self.user == sys::effective_user_id());
        let sessions = [self.session(), own.map(PathBuf::from)];
        directories(sessions.into_iter().flatten(), self.user)
    }

    /// The session's directory that it was started with.
    fn session(&self) -> Option<PathBuf> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let value =
            |variable: &[u8]| variable.strip_prefix(b"XDG_RUNTIME_DIR=").map(<[u8]>::to_vec);
        variables.find_map(value).map(|value| PathBuf::from(OsStr::from_bytes(&value)))
    }

    /// Connects to its socket in one of the directories; `None` if it has none there.
    pub(super) fn connect_in(&self, directory: &Path) -> io::Result<Option<UnixStream>> {
        let path = directory.join(format!("{}.sock", self.pid));
        let stream = sys::socket(AddressFamily::UNIX, SocketType::STREAM, true)?;
        match sys::connect_unix(&stream, &SocketAddr::from_pathname(path)?) {
            Ok(()) => {}
            Err(error) => {
                use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
                let is_absent =
                    [NotFound, NotADirectory, ConnectionRefused].contains(&error.kind());
                return if is_absent { Ok(None) } else { Err(error) };
            }
        }
        let peer = sys::peer_credentials(&stream)?;
        if (peer.process, peer.user) != (self.pid, self.user) {
            // A process that had this id before has left the socket to its child.
            return Ok(None);
        }
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(false)?;
        Ok(Some(stream))
    }
}

fn directories(sessions: impl Iterator<Item = PathBuf>, user: u32) -> Vec<PathBuf> {
    let sessions = sessions.filter(|session| session.is_absolute());
    let usual = PathBuf::from(format!("/run/user/{user}"));
    let mut all: Vec<_> = sessions.chain([usual]).map(|runtime| runtime.join("ramie")).collect();
    all.push(PathBuf::from(format!("/tmp/ramie-{user}")));
    all
}

/// The processes of this user that can be dumped, by their ids.
pub(super) fn all() -> Vec<Process> {
    let session = env::var_os(SESSION).map(PathBuf::from);
    let mut found = BTreeMap::new();
    for directory in directories(session.into_iter(), sys::effective_user_id()) {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse().ok());
            let Some(process) = pid.and_then(Process::find) else { continue };
            if matches!(process.connect_in(&directory), Ok(Some(_))) {
                found.insert(process.pid, process);
            }
        }
    }
    found.into_values().collect()
}
