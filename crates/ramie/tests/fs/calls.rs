//! Files and directories on each driver and on a plain thread, compared with std.

use std::{
    fs as theirs,
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::common;
use ramie::{
    fiber,
    fs::{self, File, OpenOptions},
    io::IsTerminal,
};

/// Runs `f` on each driver, and on a plain thread, each time with a directory of its own.
fn everywhere(f: impl Fn(&Path) + Send + Sync) {
    let in_scratch = || {
        let scratch = Scratch::new();
        f(&scratch.0);
    };
    common::on_each(&[1, 2], |runtime| runtime.run(in_scratch));
    std::thread::scope(|s| s.spawn(in_scratch).join().expect("the plain thread's run"));
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ramie-fs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        theirs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = theirs::remove_dir_all(&self.0);
    }
}

/// Bytes whose values depend on their position.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn written_bytes_are_read_by_std_and_by_its_twin() {
    everywhere(|dir| {
        let path = dir.join("file");
        for len in [0, 1, 4096, 65_536, 65_537, 1_000_000] {
            let bytes = pattern(len);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(theirs::read(&path).unwrap(), bytes);
            assert_eq!(fs::read(&path).unwrap(), bytes);
            let mut file = File::create(&path).unwrap();
            file.write_all(&bytes).unwrap();
            assert_eq!(theirs::read(&path).unwrap(), bytes);
            assert_eq!(file.metadata().unwrap().len(), len as u64);
        }
        theirs::write(&path, "grüße").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "grüße");
    });
}

#[test]
fn one_read_fills_a_large_buffer() {
    everywhere(|dir| {
        let path = dir.join("file");
        let bytes = pattern(1 << 20);
        theirs::write(&path, &bytes).unwrap();
        let mut file = File::open(&path).unwrap();
        let mut buffer = vec![0; 1 << 20];
        assert_eq!(file.read(&mut buffer).unwrap(), buffer.len());
        assert!(buffer == bytes);
        assert_eq!(file.read(&mut buffer).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, 1 << 19).unwrap(), 1 << 19);
        assert!(buffer[..1 << 19] == bytes[1 << 19..]);
    });
}

#[test]
fn positions_move_as_with_std() {
    everywhere(|dir| {
        let path = dir.join("file");
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.stream_position().unwrap(), 10);
        file.rewind().unwrap();
        let mut two = [0; 2];
        file.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"01");
        file.write_all_at(b"xy", 4).unwrap();
        file.read_exact_at(&mut two, 4).unwrap();
        assert_eq!(&two, b"xy");
        // A read at a given position does not move the current one; a duplicate shares the current
        // one.
        let mut twin = file.try_clone().unwrap();
        twin.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"23");
        assert_eq!(file.seek(SeekFrom::End(-2)).unwrap(), 8);
        twin.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"89");
        assert!(file.seek(SeekFrom::Current(-11)).is_err());
        file.set_len(3).unwrap();
        assert_eq!(theirs::read(&path).unwrap(), b"012");
    });
}

#[test]
fn vectors_are_filled_in_order() {
    everywhere(|dir| {
        let path = dir.join("file");
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = &mut file.unwrap();
        for part in [4, 100_000] {
            file.set_len(0).unwrap();
            file.rewind().unwrap();
            let (one, two) = (pattern(part), pattern(part + 1));
            let parts = [IoSlice::new(&one), IoSlice::new(&two)];
            assert_eq!(file.write_vectored(&parts).unwrap(), 2 * part + 1);
            file.rewind().unwrap();
            let (mut first, mut second) = (vec![0; part + 1], vec![0; part]);
            let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            assert_eq!(file.read_vectored(&mut into).unwrap(), 2 * part + 1);
            assert!([first, second].concat() == [one, two].concat());
        }
        assert_eq!(file.read_vectored(&mut []).unwrap(), 0);
        assert_eq!(file.write_vectored(&[]).unwrap(), 0);
    });
}

#[test]
fn readers_of_one_file_share_its_position_and_no_byte_is_read_twice() {
    everywhere(|dir| {
        let path = dir.join("file");
        let words: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        theirs::write(&path, words).unwrap();
        let file = &File::open(&path).unwrap();
        let sum = &AtomicUsize::new(0);
        fiber::scope(|s| {
            for _ in 0..8 {
                s.spawn(move || {
                    let mut word = [0; 4];
                    while (&*file).read(&mut word).unwrap() == 4 {
                        sum.fetch_add(u32::from_le_bytes(word) as usize, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 20_000 * 19_999 / 2);
    });
}

#[test]
fn concurrent_appends_lose_no_bytes() {
    everywhere(|dir| {
        let path = dir.join("log");
        fiber::scope(|s| {
            for number in 0..8_u8 {
                let path = &path;
                s.spawn(move || {
                    let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
                    for _ in 0..50 {
                        log.write_all(&[number; 16]).unwrap();
                    }
                    log.sync_data().unwrap();
                });
            }
        });
        let log = theirs::read(&path).unwrap();
        assert_eq!(log.len(), 8 * 50 * 16);
        assert!(log.chunks(16).all(|line| line.iter().all(|byte| *byte == line[0])));
    });
}

#[test]
fn directories_are_made_listed_and_removed() {
    everywhere(|dir| {
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        fs::DirBuilder::new().recursive(true).create(dir.join("a/b/c")).unwrap();
        fs::create_dir(dir.join("a/many")).unwrap();
        for number in 0..300 {
            theirs::write(dir.join(format!("a/many/{number}")), "").unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(dir.join("a/many")).unwrap().collect();
        assert_eq!(names.len(), 300);
        let entry = names.pop().unwrap().unwrap();
        assert!(entry.file_type().unwrap().is_file());
        assert_eq!(entry.metadata().unwrap().len(), 0);
        assert_eq!(entry.ino(), theirs::metadata(entry.path()).unwrap().ino());
        assert_eq!(entry.path().file_name().unwrap(), entry.file_name());
        drop(names);
        fs::remove_dir(dir.join("a/b/c")).unwrap();
        fs::remove_dir_all(dir.join("a")).unwrap();
        assert!(!fs::exists(dir.join("a")).unwrap());
    });
}

#[test]
fn paths_are_renamed_linked_and_resolved() {
    everywhere(|dir| {
        let (one, two, link) = (dir.join("one"), dir.join("two"), dir.join("link"));
        fs::write(&one, "text").unwrap();
        fs::rename(&one, &two).unwrap();
        fs::hard_link(&two, &one).unwrap();
        assert_eq!(fs::metadata(&one).unwrap().nlink(), 2);
        ramie::os::unix::fs::symlink("two", &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("two"));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::metadata(&link).unwrap().is_file());
        assert_eq!(fs::canonicalize(&link).unwrap(), two.canonicalize().unwrap());
        fs::remove_file(&one).unwrap();
        assert_eq!(fs::copy(&link, &one).unwrap(), 4);
        fs::set_permissions(&one, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(theirs::metadata(&one).unwrap().mode() & 0o777, 0o600);
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o640).open(dir.join("made")).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o137, 0);
    });
}

#[test]
fn metadata_equals_that_of_std() {
    everywhere(|dir| {
        let path = dir.join("file");
        let file = File::create(&path).unwrap();
        let time = ramie::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.set_times(fs::FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
        file.set_modified(time + Duration::from_secs(1)).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(modified, time + Duration::from_secs(1));
        let expected = format!("{:?}", theirs::metadata(&path).unwrap());
        for path in [&path, &path] {
            assert_eq!(format!("{:?}", fs::metadata(path).unwrap()), expected);
            assert_eq!(format!("{:?}", fs::symlink_metadata(path).unwrap()), expected);
        }
        assert_eq!(format!("{:?}", file.metadata().unwrap()), expected);
        let theirs = theirs::File::from(file.try_clone().unwrap());
        assert!(format!("{file:?}").contains("path"), "{file:?} {theirs:?}");
    });
}

#[test]
fn a_lock_waits_until_it_is_released() {
    everywhere(|dir| {
        let path = &dir.join("locked");
        let holder = File::create(path).unwrap();
        holder.lock().unwrap();
        let other = File::open(path).unwrap();
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        assert!(matches!(other.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
        let taken = &AtomicUsize::new(0);
        fiber::scope(|s| {
            for _ in 0..40 {
                s.spawn(move || {
                    let file = File::open(path).unwrap();
                    file.lock_shared().unwrap();
                    taken.fetch_add(1, Ordering::SeqCst);
                });
            }
            fiber::sleep(Duration::from_millis(5));
            assert_eq!(taken.load(Ordering::SeqCst), 0);
            holder.unlock().unwrap();
        });
        assert_eq!(taken.load(Ordering::SeqCst), 40);
    });
}

#[test]
fn a_fifo_waits_for_its_other_end() {
    everywhere(|dir| {
        let path = &dir.join("fifo");
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
        let open = || OpenOptions::new().write(true).open(path);
        let create = || File::create(path);
        let ways: [&dyn Fn() -> io::Result<File>; 3] = [&open, &create, &open];
        for open in ways {
            fiber::scope(|s| {
                let reader = s.spawn(|| fs::read_to_string(path).unwrap());
                let mut writer = open().unwrap();
                for part in ["first ", "second"] {
                    writer.write_all(part.as_bytes()).unwrap();
                    fiber::sleep(Duration::from_millis(1));
                }
                drop(writer);
                assert_eq!(reader.join().unwrap(), "first second");
            });
        }
    });
}

#[test]
fn a_reader_of_a_pipe_does_not_keep_others_waiting() {
    common::on_each(&[1], |runtime| {
        runtime.run(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            let file = File::from(std::os::fd::OwnedFd::from(reader));
            let waiting = fiber::spawn_local(move || {
                let mut text = String::new();
                (&file).read_to_string(&mut text).unwrap();
                text
            });
            let start = Instant::now();
            fiber::sleep(Duration::from_millis(2));
            assert!(start.elapsed() < Duration::from_secs(5));
            writer.write_all(b"through").unwrap();
            drop(writer);
            assert_eq!(waiting.join().unwrap(), "through");
        });
    });
}

#[test]
fn devices_can_be_read_and_written() {
    everywhere(|_| {
        assert!(!File::open("/dev/null").unwrap().is_terminal());
        let mut zero = File::open("/dev/zero").unwrap();
        let mut bytes = [1; 100];
        zero.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [0; 100]);
        let mut null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        null.write_all(&bytes).unwrap();
        assert!(fs::read_to_string("/proc/self/status").unwrap().contains("Threads:"));
    });
}
