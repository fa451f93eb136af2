//! Mistakes with files, made through std and through the twin: kind and errno of the error are the
//! same.

use std::{
    fmt::Debug,
    fs as theirs,
    io::{self, Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsRawFd, FromRawFd, IntoRawFd},
        unix::{
            self,
            fs::{FileExt, OpenOptionsExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
};

use crate::common;
use ramie::{fs, os::unix::fs as our_unix};

/// Runs `f` on each driver, and on a plain thread.
fn everywhere(f: impl Fn() + Send + Sync) {
    common::on_each(&[1, 2], |runtime| runtime.run(&f));
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

/// The kind, and the errno if there is one, otherwise the text.
fn described<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => match error.raw_os_error() {
            Some(errno) => format!("{:?}, errno {errno}", error.kind()),
            None => format!("{:?}, {error}", error.kind()),
        },
    }
}

#[track_caller]
fn same<T: Debug>(what: &str, theirs: io::Result<T>, ours: io::Result<T>) {
    assert_eq!(described(ours), described(theirs), "{what}: ours, then std's");
}

/// Makes the same call with a path through both; `undo` undoes a success.
macro_rules! each_way {
    ($path:expr; $($call:ident $(($($argument:expr),*))?),* $(,)?) => {$(
        same(
            concat!(stringify!($call), " of ", stringify!($path)),
            theirs::$call($path $(, $($argument),*)?).map(drop),
            fs::$call($path $(, $($argument),*)?).map(drop),
        );
    )*};
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("ramie-fs-errors-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        theirs::create_dir(&path).unwrap();
        theirs::create_dir(path.join("full")).unwrap();
        theirs::write(path.join("full/file"), "text").unwrap();
        theirs::write(path.join("bytes"), [0xff, 0xfe]).unwrap();
        unix::fs::symlink("loop", path.join("loop")).unwrap();
        unix::fs::symlink("nothing", path.join("dangling")).unwrap();
        Scratch(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = theirs::remove_dir_all(&self.0);
    }
}

#[test]
fn errors_of_invalid_paths_equal_those_of_std() {
    everywhere(|| {
        let scratch = Scratch::new();
        let too_long = "x".repeat(256);
        let far_too_long = "x/".repeat(3000);
        let other = scratch.at("other");
        let names = [
            "missing",
            "missing/file",
            "full/file/below",
            "loop",
            "a\0b",
            "",
            &too_long,
            &far_too_long,
        ];
        for name in names {
            let path = &if name.is_empty() { PathBuf::new() } else { scratch.at(name) };
            each_way!(path; read, read_to_string, metadata, canonicalize, read_dir, remove_dir,
                exists, copy(&other));
            same(name, theirs::File::open(path).map(drop), fs::File::open(path).map(drop));
            let mut their_options = theirs::OpenOptions::new();
            let mut our_options = fs::OpenOptions::new();
            for append in [false, true] {
                let theirs = their_options.write(true).append(append).open(path).map(drop);
                same(name, theirs, our_options.write(true).append(append).open(path).map(drop));
            }
            if name != "loop" {
                each_way!(path; read_link, symlink_metadata, remove_file, remove_dir_all,
                    hard_link(&other), rename(&other));
            }
            if name != "missing" {
                each_way!(path; write("x"), create_dir, create_dir_all);
                same(name, theirs::File::create(path).map(drop), fs::File::create(path).map(drop));
            }
            let permissions = theirs::Permissions::from_mode(0o600);
            each_way!(path; set_permissions(permissions.clone()));
            let theirs = unix::fs::chown(path, Some(0), None);
            same(name, theirs, our_unix::chown(path, Some(0), None));
        }
        assert!(!fs::exists(scratch.at("dangling")).unwrap());
    });
}

#[test]
fn errors_of_files_of_the_wrong_type_equal_those_of_std() {
    everywhere(|| {
        let scratch = Scratch::new();
        let (file, dir) = (&scratch.at("full/file"), &scratch.at("full"));
        each_way!(dir; read, read_to_string, write("x"), remove_file, create_dir, remove_dir,
            read_link, copy(&scratch.at("other")), hard_link(&scratch.at("other")));
        each_way!(file; create_dir, create_dir_all, remove_dir, read_dir, read_link,
            copy(dir), rename(dir));
        each_way!(dir; rename(file), rename(&scratch.at("full/below")));
        each_way!(&scratch.at("bytes"); read_to_string);
        same("a link", unix::fs::symlink("x", file), our_unix::symlink("x", file));
        same("a name", theirs::hard_link(dir.join("file"), file), fs::hard_link(file, file));
        let theirs = theirs::File::create_new(file).map(drop);
        same("create_new", theirs, fs::File::create_new(file).map(drop));
        // Opening a directory succeeds; the read fails.
        let (mut their_dir, mut our_dir) =
            (theirs::File::open(dir).unwrap(), fs::File::open(dir).unwrap());
        let (mut one, mut two) = ([0; 8], [0; 8]);
        same("read", their_dir.read(&mut one), our_dir.read(&mut two));
        same("read_at", their_dir.read_at(&mut one, 0), our_dir.read_at(&mut two, 0));
        same("read_to_end", their_dir.read_to_end(&mut vec![]), our_dir.read_to_end(&mut vec![]));
    });
}

#[test]
fn errors_of_invalid_open_options_equal_those_of_std() {
    everywhere(|| {
        let scratch = Scratch::new();
        let file = &scratch.at("full/file");
        for bits in 0..64_u32 {
            let has = |bit: u32| bits & (1 << bit) != 0;
            let (mut theirs, mut ours) = (theirs::OpenOptions::new(), fs::OpenOptions::new());
            theirs.read(has(0)).write(has(1)).append(has(2));
            theirs.truncate(has(3)).create(has(4)).create_new(has(5));
            ours.read(has(0)).write(has(1)).append(has(2));
            ours.truncate(has(3)).create(has(4)).create_new(has(5));
            same(&format!("{ours:?}"), theirs.open(file).map(drop), ours.open(file).map(drop));
        }
        const O_DIRECTORY: i32 = 0o200_000;
        let theirs = theirs::OpenOptions::new().read(true).custom_flags(O_DIRECTORY).open(file);
        let ours = fs::OpenOptions::new().read(true).custom_flags(O_DIRECTORY).open(file);
        same("O_DIRECTORY", theirs.map(drop), ours.map(drop));
        // This FIFO has no reader.
        let fifo = &scratch.at("fifo");
        assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
        const O_NONBLOCK: i32 = 0o4000;
        let theirs = theirs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(fifo);
        let ours = fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(fifo);
        same("O_NONBLOCK", theirs.map(drop), ours.map(drop));
        let mut theirs =
            theirs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(fifo).unwrap();
        let mut ours = fs::File::from(theirs.try_clone().unwrap());
        let _writer = theirs::OpenOptions::new().write(true).open(fifo).unwrap();
        same("a read would block", theirs.read(&mut [0]), ours.read(&mut [0]));
    });
}

/// A number that is no open descriptor.
fn bad_fd() -> i32 {
    let (reader, _writer) = io::pipe().unwrap();
    let high = reader.as_raw_fd() + 10_000;
    drop(reader);
    high
}

#[test]
fn errors_of_files_in_the_wrong_mode_equal_those_of_std() {
    everywhere(|| {
        let scratch = Scratch::new();
        let path = &scratch.at("full/file");
        let (mut theirs, mut ours) =
            (theirs::File::open(path).unwrap(), fs::File::open(path).unwrap());
        same("write", theirs.write(b"x"), ours.write(b"x"));
        same("large write", theirs.write(&[0; 100_000]), ours.write(&[0; 100_000]));
        same("write_at", theirs.write_at(b"x", 0), ours.write_at(b"x", 0));
        same("set_len", theirs.set_len(1), ours.set_len(1));
        let (mut one, mut two) = ([0; 8], [0; 8]);
        same("read_at", theirs.read_at(&mut one, u64::MAX), ours.read_at(&mut two, u64::MAX));
        same("read_at", theirs.read_at(&mut one, 1 << 63), ours.read_at(&mut two, 1 << 63));
        same("past the end", theirs.read_at(&mut one, 100), ours.read_at(&mut two, 100));
        same("too little", theirs.read_exact(&mut one), ours.read_exact(&mut two));
        same("before 0", theirs.seek(SeekFrom::Current(-9)), ours.seek(SeekFrom::Current(-9)));
        let options = || theirs::OpenOptions::new().write(true).open(path).unwrap();
        let (mut theirs, mut ours) = (options(), fs::File::from(options()));
        same("read", theirs.read(&mut one), ours.read(&mut two));
        same("set_len", theirs.set_len(1 << 63), ours.set_len(1 << 63));
        same("write_at", theirs.write_at(b"x", u64::MAX), ours.write_at(b"x", u64::MAX));
        let pipe = || io::pipe().unwrap();
        let ((reader, writer), (our_reader, our_writer)) = (pipe(), pipe());
        let theirs = theirs::File::from(std::os::fd::OwnedFd::from(reader));
        let ours = fs::File::from(std::os::fd::OwnedFd::from(our_reader));
        same("a pipe has no place", theirs.read_at(&mut one, 0), ours.read_at(&mut two, 0));
        same(
            "a pipe has no place",
            (&theirs).seek(SeekFrom::Start(0)),
            (&ours).seek(SeekFrom::Start(0)),
        );
        same("sync", theirs.sync_all(), ours.sync_all());
        drop((writer, our_writer));
        same("the end", (&theirs).read(&mut one), (&ours).read(&mut two));
        let ((reader, writer), (our_reader, our_writer)) = (pipe(), pipe());
        drop((reader, our_reader));
        let mut theirs = theirs::File::from(std::os::fd::OwnedFd::from(writer));
        let mut ours = fs::File::from(std::os::fd::OwnedFd::from(our_writer));
        same("nobody reads", theirs.write(b"x"), ours.write(b"x"));
    });
}

#[test]
fn errors_of_a_closed_descriptor_equal_those_of_std() {
    if !common::is_child() {
        // In a process of its own, because another test could open this number meanwhile.
        let output = common::child("errors_of_a_closed_descriptor_equal_those_of_std");
        return common::assert_success(&output);
    }
    everywhere(|| {
        // SAFETY: the descriptor is deliberately not open, and no other code of this process uses
        // the number.
        let mut theirs = unsafe { theirs::File::from_raw_fd(bad_fd()) };
        // SAFETY: as above.
        let mut ours = unsafe { fs::File::from_raw_fd(theirs.as_raw_fd()) };
        let (mut one, mut two) = ([0; 8], [0; 8]);
        same("read", theirs.read(&mut one), ours.read(&mut two));
        same("read_at", theirs.read_at(&mut one, 0), ours.read_at(&mut two, 0));
        same("write", theirs.write(b"x"), ours.write(b"x"));
        same("sync_all", theirs.sync_all(), ours.sync_all());
        same("set_len", theirs.set_len(0), ours.set_len(0));
        same("metadata", theirs.metadata().map(drop), ours.metadata().map(drop));
        same("clone", theirs.try_clone().map(drop), ours.try_clone().map(drop));
        same("lock", theirs.lock(), ours.lock());
        same("seek", theirs.stream_position(), ours.stream_position());
        let _ = (theirs.into_raw_fd(), ours.into_raw_fd());
    });
}

/// Runs as the user nobody, because root may do everything.
#[test]
fn errors_of_missing_permissions_equal_those_of_std() {
    let name = "errors_of_missing_permissions_equal_those_of_std";
    if !common::is_child() {
        let scratch = Scratch::new();
        theirs::set_permissions(scratch.at("full/file"), PermissionsExt::from_mode(0o000)).unwrap();
        theirs::create_dir(scratch.at("closed")).unwrap();
        theirs::set_permissions(scratch.at("closed"), PermissionsExt::from_mode(0o000)).unwrap();
        let as_nobody = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(std::env::current_exe().unwrap())
            .args([&*common::full_name(name), "--exact", "--nocapture"])
            .env("RAMIE_TEST_CHILD", "1")
            .env("RAMIE_TEST_SCRATCH", &scratch.0)
            .output();
        match as_nobody {
            Ok(output) if output.status.code() == Some(126 | 127 | 1) => {
                let said = common::stderr(&output);
                common::skipped(format_args!("setpriv cannot become another user: {said}"));
            }
            Ok(output) => common::assert_success(&output),
            Err(error) => common::skipped(format_args!("no setpriv: {error}")),
        }
        return;
    }
    let scratch = PathBuf::from(std::env::var_os("RAMIE_TEST_SCRATCH").unwrap());
    everywhere(|| forbidden(&scratch));
}

fn forbidden(scratch: &Path) {
    let (file, closed) = (&scratch.join("full/file"), &scratch.join("closed"));
    let inside = &closed.join("inside");
    each_way!(file; read, write("x"), remove_file, rename(inside), hard_link(&scratch.join("x")),
        set_permissions(theirs::Permissions::from_mode(0o600)));
    each_way!(closed; read_dir, remove_dir, remove_dir_all);
    each_way!(inside; read, metadata, symlink_metadata, exists, create_dir, canonicalize,
        write("x"));
    same(
        "chown",
        unix::fs::chown(file, Some(65534), None),
        our_unix::chown(file, Some(65534), None),
    );
    same("chroot", unix::fs::chroot(scratch), our_unix::chroot(scratch));
    assert_eq!(fs::read(file).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}
