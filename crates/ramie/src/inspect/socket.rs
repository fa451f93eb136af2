//! The socket on which a process answers requests for dumps: its place, its name, its permissions.
//!
//! The socket is `PID.sock` in a directory that only its user may enter. A socket gets that name
//! once it listens, so a file of this name that refuses connections was left by a process that
//! crashed, and may be removed.

use std::{
    env, fs, io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt, MetadataExt, PermissionsExt},
            net::SocketAddr,
        },
    },
    path::{Path, PathBuf},
    process,
};

use ramie_driver::sys::{self, AddressFamily, Errno, SocketType};

/// The number of clients that may wait for their turn.
const BACKLOG: i32 = 16;
/// The ending of the names of sockets.
const ENDING: &str = ".sock";

/// A socket that listens; its file is removed when this is dropped.
pub(super) struct DumpSocket {
    path: PathBuf,
}

impl DumpSocket {
    /// Opens the socket of this process.
    ///
    /// # Errors
    /// The text names the cause and a remedy.
    pub(super) fn open() -> io::Result<(DumpSocket, OwnedFd)> {
        let directory = directory();
        prepare(&directory)?;
        remove_stale(&directory);
        let path = directory.join(format!("{}{ENDING}", process::id()));
        let listener = listen(&path).map_err(|error| explained(&error, &path))?;
        Ok((DumpSocket { path }, listener))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DumpSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The directory of the sockets of this user.
fn directory() -> PathBuf {
    let user = sys::effective_user_id();
    let of_session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{user}"));
    // A process under `sudo` may have the variable of another user, whose directory it must not
    // fill with files of its own.
    let is_ours = |path: &PathBuf| {
        let found = fs::metadata(path);
        path.is_absolute() && found.is_ok_and(|found| found.is_dir() && found.uid() == user)
    };
    match of_session.into_iter().chain([usual]).find(is_ours) {
        Some(runtime) => runtime.join("ramie"),
        None => PathBuf::from(format!("/tmp/ramie-{user}")),
    }
}

/// Makes the directory if it is missing, and checks that only this user may enter it.
fn prepare(directory: &Path) -> io::Result<()> {
    let refuse = |why: &str| {
        let directory = directory.display();
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{directory} {why}")))
    };
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(explained(&error, directory));
        }
        _ => {}
    }
    // Not of the target of a symbolic link, which another user may have made in /tmp.
    let found = fs::symlink_metadata(directory).map_err(|error| explained(&error, directory))?;
    let instead = "or set XDG_RUNTIME_DIR to a directory of your own";
    if !found.is_dir() {
        return refuse(&format!("is not a directory; remove it, {instead}"));
    }
    if found.uid() != sys::effective_user_id() {
        return refuse(&format!("belongs to another user; have it removed, {instead}"));
    }
    if found.mode() & 0o077 != 0 {
        return refuse("is open to other users; close it with `chmod 700`");
    }
    Ok(())
}

fn explained(error: &io::Error, path: &Path) -> io::Error {
    let cure = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`",
        Some(Errno::NOSPC | Errno::DQUOT) => "free some space there",
        _ => "set XDG_RUNTIME_DIR to a directory of your own with a short path",
    };
    io::Error::new(error.kind(), format!("{}: {error}; {cure}", path.display()))
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    if connect(path).is_ok_and(|peer| peer != Some(process::id())) {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "a process of another container, with the same id, uses this socket",
        ));
    }
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let listener = sys::socket(AddressFamily::UNIX, SocketType::STREAM, false)?;
    sys::bind_unix(&listener, &SocketAddr::from_pathname(&fresh)?)?;
    let listen = || {
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        sys::listen(&listener, BACKLOG)?;
        // Replaces a file that was left by a process that crashed.
        fs::rename(&fresh, path)
    };
    let listens = listen();
    if listens.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    listens.map(|()| listener)
}

/// Connects to a socket; returns the id of the process that began to listen, if it is of this
/// namespace. (It may have ended, and left the socket to a child.)
fn connect(path: &Path) -> io::Result<Option<u32>> {
    let stream = sys::socket(AddressFamily::UNIX, SocketType::STREAM, true)?;
    match sys::connect_unix(&stream, &SocketAddr::from_pathname(path)?) {
        Ok(()) => {
            let peer = sys::peer_credentials(&stream)?;
            Ok(Some(peer.process).filter(|process| *process != 0))
        }
        // Its queue is full, so it listens.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the sockets of processes that crashed, so that they do not pile up.
fn remove_stale(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { continue };
        // A process of another container is not in this /proc, but accepts connections.
        let is_alive = || Path::new(&format!("/proc/{owner}")).exists();
        let refuses = || {
            let refused = connect(&entry.path()).err().map(|error| error.kind());
            refused == Some(io::ErrorKind::ConnectionRefused)
        };
        if !is_alive() && refuses() {
            let _ = fs::remove_file(entry.path());
        }
    }
}
