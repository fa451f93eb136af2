//! Opens files below a directory, and nothing outside of it.
//!
//! The kernel resolves a path with `RESOLVE_BENEATH`, which refuses a symbolic link that leads out
//! of the directory, also if the link is replaced meanwhile. Where the kernel or a filter of system
//! calls refuses openat2(2), each component is opened on its own, and symbolic links are refused.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use ramie::ring;
use rustix::{
    fs::{Access, AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags},
    io::Errno,
};

/// A file or a directory that was opened.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) kind: FileType,
    pub(super) length: u64,
    pub(super) inode: u64,
    /// None if it lies before 1970.
    pub(super) modified: Option<SystemTime>,
}

/// A pipe without a writer would block an open without `NONBLOCK`, which has no effect on files.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens the directory itself, and checks that files below it can be opened.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())?;
    match rustix::fs::accessat(&root, c".", Access::EXEC_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => Err(Errno::ACCESS.into()),
        // Other errors are of the call itself: a filter of system calls may refuse it.
        _ => Ok(root),
    }
}

/// Opens a path that is relative and has no `..`; an empty one is the directory itself.
pub(super) fn open_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<Opened> {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    let openat2 = Openat2 { is_refused: &IS_REFUSED, open: open_beneath, probe };
    openat2.open_below(root, path).and_then(examine)
}

/// The call openat2(2), and whether it is known to be refused.
struct Openat2<'a> {
    is_refused: &'a AtomicBool,
    open: fn(BorrowedFd<'_>, &Path) -> io::Result<OwnedFd>,
    probe: fn(BorrowedFd<'_>) -> rustix::io::Result<OwnedFd>,
}

impl Openat2<'_> {
    fn open_below(&self, root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
        if !self.is_refused.load(Ordering::Relaxed) {
            match (self.open)(root, path) {
                Err(error) if self.is_refused_by(&error, root) => {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                opened => return opened,
            }
        }
        open_by_walk(root, path)
    }

    /// Whether the kernel lacks the call, or a filter of system calls refuses it. Such a filter
    /// usually answers EPERM, and so does a file system that refuses one file.
    fn is_refused_by(&self, error: &io::Error, root: BorrowedFd<'_>) -> bool {
        match Errno::from_io_error(error) {
            Some(Errno::NOSYS) => true,
            Some(Errno::PERM) => matches!((self.probe)(root), Err(Errno::NOSYS | Errno::PERM)),
            _ => false,
        }
    }
}

/// Opens the directory once more, which no file system is asked for.
fn probe(root: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(root, c".", flags, Mode::empty(), ResolveFlags::BENEATH)
}

fn open_beneath(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // A path that the kernel has cached needs no op.
    let at_once = resolve | ResolveFlags::CACHED;
    match rustix::fs::openat2(root, path, FLAGS, Mode::empty(), at_once) {
        // `INVAL`: the kernel is older than the flag.
        Err(Errno::AGAIN | Errno::INVAL | Errno::INTR) => {
            ring::openat2(root, path, FLAGS, Mode::empty(), resolve)
        }
        opened => Ok(opened?),
    }
}

fn open_by_walk(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    ramie::blocking(|| {
        let mut folder: Option<OwnedFd> = None;
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            let at = folder.as_ref().map_or(root, AsFd::as_fd);
            let flags = match names.peek() {
                Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                None => FLAGS,
            };
            let flags = flags | OFlags::NOFOLLOW;
            let open = || rustix::fs::openat(at, name.as_bytes(), flags, Mode::empty());
            folder = Some(rustix::io::retry_on_intr(open)?);
        }
        match folder {
            Some(opened) => Ok(opened),
            None => Ok(rustix::fs::openat(root, c".", FLAGS, Mode::empty())?),
        }
    })
}

/// The attributes that the kernel knows; a server of files is not asked, because the open has
/// asked it.
fn examine(fd: OwnedFd) -> io::Result<Opened> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let facts = rustix::fs::statx(&fd, c"", flags, StatxFlags::BASIC_STATS)?;
    let seconds = u64::try_from(facts.stx_mtime.tv_sec).ok();
    let modified = seconds.and_then(|seconds| {
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, facts.stx_mtime.tv_nsec))
    });
    Ok(Opened {
        fd,
        kind: FileType::from_raw_mode(facts.stx_mode.into()),
        length: facts.stx_size,
        inode: facts.stx_ino,
        modified,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::PathBuf};

    use super::*;

    /// `root` with files and links, beside a secret.
    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ramie-http-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root/inner")).unwrap();
        fs::write(path.join("secret"), "secret").unwrap();
        fs::write(path.join("root/inner/a"), "a").unwrap();
        symlink("inner/a", path.join("root/link")).unwrap();
        symlink("../secret", path.join("root/out")).unwrap();
        symlink("..", path.join("root/up")).unwrap();
        symlink("inner/../../secret", path.join("root/around")).unwrap();
        symlink(path.join("secret"), path.join("root/absolute")).unwrap();
        symlink("/proc/self/root", path.join("root/magic")).unwrap();
        path
    }

    type Open = fn(BorrowedFd<'_>, &Path) -> io::Result<OwnedFd>;

    fn check(name: &str, open: Open, follows_inner: bool) {
        let path = folder(name);
        let root = open_root(&path.join("root")).unwrap();
        let kind = |name: &str| {
            open(root.as_fd(), Path::new(name)).and_then(examine).map(|opened| opened.kind)
        };
        assert_eq!(kind("inner/a").unwrap(), FileType::RegularFile);
        assert_eq!(kind("inner").unwrap(), FileType::Directory);
        assert_eq!(kind("").unwrap(), FileType::Directory);
        assert_eq!(kind("link").is_ok(), follows_inner);
        for bad in ["out", "up", "up/secret", "around", "absolute", "magic", "magic/etc/passwd"] {
            assert!(kind(bad).is_err(), "{bad}");
        }
        assert_eq!(kind("none").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(kind("inner/a/b").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn no_link_leads_out_of_the_directory() {
        check("beneath", open_beneath, true);
        ramie::run(|| check("beneath-fiber", open_beneath, true));
    }

    #[test]
    fn a_walk_follows_no_links() {
        check("walk", open_by_walk, false);
        ramie::run(|| check("walk-fiber", open_by_walk, false));
    }

    fn perm(_: BorrowedFd<'_>, _: &Path) -> io::Result<OwnedFd> {
        Err(Errno::PERM.into())
    }

    fn nosys(_: BorrowedFd<'_>, _: &Path) -> io::Result<OwnedFd> {
        Err(Errno::NOSYS.into())
    }

    fn perm_of_probe(_: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
        Err(Errno::PERM)
    }

    /// One file that a file system refuses must not change how others are opened.
    #[test]
    fn only_a_refusal_of_the_call_itself_leads_to_the_walk() {
        let path = folder("refusal");
        let root = open_root(&path.join("root")).unwrap();
        let is_refused = AtomicBool::new(false);
        let check = |open, probe, is_opened| {
            let openat2 = Openat2 { is_refused: &is_refused, open, probe };
            let opened = openat2.open_below(root.as_fd(), Path::new("inner/a"));
            assert_eq!(opened.is_ok(), is_opened);
            is_refused.swap(false, Ordering::Relaxed)
        };
        assert!(!check(perm, probe, false));
        assert!(check(perm, perm_of_probe, true));
        assert!(check(nosys, probe, true));
        assert!(!check(open_beneath, perm_of_probe, true));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_pipe_does_not_block() {
        let path = folder("pipe");
        let pipe = path.join("root/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let root = open_root(&path.join("root")).unwrap();
        let opened = open_below(root.as_fd(), Path::new("pipe")).unwrap();
        assert_eq!(opened.kind, FileType::Fifo);
        fs::remove_dir_all(path).unwrap();
    }
}
