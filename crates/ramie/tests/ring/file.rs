//! The ring's calls on files and names: on each driver, on a plain thread, and as on older kernels.

use std::{
    fs, io,
    os::fd::AsRawFd,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use crate::common::{self, everywhere};
use ramie::{
    cancel,
    ring::{
        self, Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, ResolveFlags,
        StatxFlags, XattrFlags,
    },
};

/// A directory for one test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ramie-ring-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

const ENOENT: Option<i32> = Some(2);
const EEXIST: Option<i32> = Some(17);
const EXDEV: Option<i32> = Some(18);
const ERANGE: Option<i32> = Some(34);

#[test]
fn a_file_is_opened_beneath_a_directory_sized_and_described() {
    everywhere(|| {
        let folder = Folder::new();
        let dir = fs::File::open(&folder.0).unwrap();
        let (flags, mode) = (OFlags::CREATE | OFlags::RDWR, Mode::RUSR | Mode::WUSR);
        let file = ring::openat2(&dir, "file", flags, mode, ResolveFlags::BENEATH).unwrap();
        ring::fallocate(&file, FallocateFlags::empty(), 0, 5000).unwrap();
        ring::ftruncate(&file, 4321).unwrap();
        ring::fadvise(&file, 0, 0, Advice::DontNeed).unwrap();
        ring::fadvise(&file, 0, 1 << 33, Advice::Sequential).unwrap();
        ring::fsync(&file, false).unwrap();
        ring::fsync(&file, true).unwrap();
        let size = StatxFlags::SIZE | StatxFlags::MODE;
        let statx = ring::statx(&dir, "file", AtFlags::empty(), size).unwrap();
        assert_eq!((statx.stx_size, statx.stx_mode & 0o777), (4321, 0o600));
        let itself = ring::statx(&file, "", AtFlags::EMPTY_PATH, size).unwrap();
        assert_eq!(itself.stx_size, 4321);
        // The descriptor is close-on-exec.
        let flags = fd_info(file.as_raw_fd());
        assert!(flags.contains("flags:\t02"), "{flags}");
        let none = Mode::empty();
        let outside = ring::openat2(&dir, "../x", OFlags::RDONLY, none, ResolveFlags::BENEATH);
        assert_eq!(errno(outside), EXDEV);
        let gone = ring::statx(&dir, "nothing", AtFlags::empty(), size).map(drop);
        assert_eq!(errno(gone), ENOENT);
        let zero = ring::openat2(CWD, "a\0b", OFlags::RDONLY, none, ResolveFlags::empty());
        assert_eq!(zero.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

/// The entry of a descriptor in /proc; `O_CLOEXEC` is 02000000.
fn fd_info(fd: i32) -> String {
    fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap()
}

#[test]
fn names_are_made_moved_and_removed() {
    everywhere(|| {
        let folder = Folder::new();
        let dir = fs::File::open(&folder.0).unwrap();
        ring::mkdir(&dir, "sub", Mode::RWXU).unwrap();
        assert_eq!(errno(ring::mkdir(&dir, "sub", Mode::RWXU)), EEXIST);
        ring::symlink("nowhere", &dir, "link").unwrap();
        assert_eq!(fs::read_link(folder.0.join("link")).unwrap().to_str(), Some("nowhere"));
        ring::link(&dir, "link", &dir, "second", AtFlags::empty()).unwrap();
        let keep = RenameFlags::NOREPLACE;
        assert_eq!(errno(ring::rename(&dir, "second", &dir, "link", keep)), EEXIST);
        ring::rename(&dir, "second", CWD, folder.0.join("sub/moved"), keep).unwrap();
        assert_eq!(errno(ring::unlink(&dir, "second", AtFlags::empty())), ENOENT);
        ring::unlink(&dir, "sub/moved", AtFlags::empty()).unwrap();
        ring::unlink(&dir, "sub", AtFlags::REMOVEDIR).unwrap();
        ring::unlink(&dir, "link", AtFlags::empty()).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    });
}

#[test]
fn attributes_are_set_and_read() {
    everywhere(|| {
        let folder = Folder::new();
        let path = folder.0.join("file");
        let file = fs::File::create(&path).unwrap();
        let name = "user.ramie";
        if errno(ring::setxattr(&path, name, b"first", XattrFlags::empty())) == Some(95) {
            return common::skipped(format_args!("{} keeps no attributes", path.display()));
        }
        let mut room = [0; 16];
        assert_eq!(ring::fgetxattr(&file, name, &mut room).unwrap(), 5);
        assert_eq!(&room[..5], b"first");
        assert_eq!(errno(ring::fsetxattr(&file, name, b"2nd", XattrFlags::CREATE)), EEXIST);
        ring::fsetxattr(&file, name, b"2nd", XattrFlags::REPLACE).unwrap();
        assert_eq!(ring::getxattr(&path, name, &mut []).unwrap(), 3);
        assert_eq!(errno(ring::getxattr(&path, name, &mut room[..2])), ERANGE);
        assert_eq!(ring::getxattr(&path, name, &mut room).unwrap(), 3);
        assert_eq!(&room[..3], b"2nd");
    });
}

#[test]
fn no_call_begins_in_a_cancelled_scope() {
    everywhere(|| {
        let folder = Folder::new();
        let file = fs::File::create(folder.0.join("file")).unwrap();
        let path = folder.0.join("new");
        let none = Mode::empty();
        let refused: [(&str, &dyn Fn() -> io::Result<()>); 15] = [
            ("openat2", &|| {
                let resolve = ResolveFlags::empty();
                ring::openat2(CWD, &path, OFlags::CREATE, Mode::RWXU, resolve).map(drop)
            }),
            ("statx", &|| ring::statx(CWD, "/", AtFlags::empty(), StatxFlags::SIZE).map(drop)),
            ("fsync", &|| ring::fsync(&file, true)),
            ("fallocate", &|| ring::fallocate(&file, FallocateFlags::empty(), 0, 1)),
            ("ftruncate", &|| ring::ftruncate(&file, 1)),
            ("fadvise", &|| ring::fadvise(&file, 0, 0, Advice::Normal)),
            ("mkdir", &|| ring::mkdir(CWD, &path, none)),
            ("symlink", &|| ring::symlink("x", CWD, &path)),
            ("link", &|| ring::link(CWD, "/", CWD, &path, AtFlags::empty())),
            ("rename", &|| ring::rename(&file, "x", CWD, &path, RenameFlags::empty())),
            ("unlink", &|| ring::unlink(CWD, folder.0.join("file"), AtFlags::empty())),
            ("setxattr", &|| ring::setxattr(&path, "user.a", b"", XattrFlags::empty())),
            ("getxattr", &|| ring::getxattr(&path, "user.a", &mut []).map(drop)),
            ("fgetxattr", &|| ring::fgetxattr(&file, "user.a", &mut []).map(drop)),
            ("fsetxattr", &|| ring::fsetxattr(&file, "user.a", b"", XattrFlags::empty())),
        ];
        for (name, call) in refused {
            let result = cancel::scope(|scope| {
                scope.cancel();
                call()
            });
            assert!(cancel::is_cancelled(&result.expect_err(name)), "{name}");
        }
        assert!(!path.exists() && folder.0.join("file").exists());
        assert_eq!(file.metadata().unwrap().len(), 0);
    });
}
