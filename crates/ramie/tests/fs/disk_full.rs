//! A full disk, or a file that has reached its size limit: each way to write reports it, and the
//! file contains the bytes that the calls reported as written.

use std::{
    fs,
    io::{self, BufWriter, IoSlice, Read, Seek, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use crate::common;
use ramie::{
    fs::File,
    ring::{self, RegisteredBuffer},
};

/// The environment variables for the folder of the child's files and for the most bytes that a file
/// takes there.
const PLACE: &str = "RAMIE_TEST_PLACE";
const ROOM: &str = "RAMIE_TEST_ROOM";
/// The environment variable for a file that is too large for that folder.
const SOURCE: &str = "RAMIE_TEST_SOURCE";

const MIB: usize = 1 << 20;

type Call = fn(&File, &[u8]) -> io::Result<usize>;
/// Ways to write all bytes, in several calls.
type Way<'a> = &'a dyn Fn(&File) -> io::Result<()>;

/// Each call that writes at the current position.
const CALLS: [(&str, Call); 6] = [
    ("write", |mut file, bytes| file.write(bytes)),
    ("write of 50,000", |mut file, bytes| file.write(&bytes[..bytes.len().min(50_000)])),
    ("write_vectored", |mut file, bytes| file.write_vectored(&halves(bytes))),
    ("ring::write", |file, bytes| ring::write(file, bytes, None)),
    ("ring::writev", |file, bytes| ring::writev(file, &halves(bytes), None)),
    ("RegisteredBuffer::write", |file, bytes| {
        let len = bytes.len().min(300_000);
        let mut buffer = RegisteredBuffer::new(len)?;
        buffer.copy_from_slice(&bytes[..len]);
        buffer.write(file, .., None)
    }),
];

fn halves(bytes: &[u8]) -> [IoSlice<'_>; 2] {
    let (one, two) = bytes.split_at(bytes.len() / 3);
    [IoSlice::new(one), IoSlice::new(two)]
}

/// Bytes of which no two parts of the same length are equal.
fn pattern(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4) as u32).flat_map(|n| (n ^ 0xa5c3_0f00).to_ne_bytes()).take(len).collect()
}

fn too_much(room: usize) -> Vec<u8> {
    pattern(2 * room + 12_345)
}

/// Repeats the call until all bytes are written or a call fails.
fn write_all_by(call: Call, file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match call(file, &bytes[done..])? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}

/// Writes more bytes than there is room for, in each way.
fn fill(place: &Path, room: usize) {
    let bytes = too_much(room);
    let path = place.join("file");
    let source = std::env::var_os(SOURCE).expect("the parent set it");
    let ways: [(&str, Way<'_>); 4] = [
        ("write_all", &|mut file| file.write_all(&bytes)),
        ("BufWriter", &|file| {
            let mut buffered = BufWriter::with_capacity(100_000, file);
            buffered.write_all(&bytes[..1])?;
            bytes[1..].chunks(30_000).try_for_each(|part| buffered.write_all(part))?;
            buffered.flush()
        }),
        ("io::copy from a file", &|mut file| {
            let mut source = File::open(&source)?;
            let copied = ramie::io::copy(&mut source, &mut file);
            assert_eq!(source.stream_position()?, file.stream_position()?, "the source's position");
            copied.map(drop)
        }),
        ("io::copy", &|mut file| ramie::io::copy(&mut &bytes[..], &mut file).map(drop)),
    ];
    for append in [false, true] {
        let open = || {
            let mut options = File::options();
            options.read(true).append(append).write(true).create(true);
            options.open(&path).expect("a file can be made")
        };
        for (name, way) in ways {
            let file = open();
            let result = way(&file).and_then(|()| file.sync_all());
            check(name, result, file, &bytes);
            empty_and_remove(&path);
        }
        for (name, call) in CALLS {
            let file = open();
            let result = write_all_by(call, &file, &bytes).and_then(|()| file.sync_all());
            check(name, result, file, &bytes);
            empty_and_remove(&path);
        }
    }
}

/// The kernel keeps a file's space until its last reference is gone. A kernel thread of io_uring
/// can hold one for a moment after the op's completion, and the next file needs the space.
fn empty_and_remove(path: &Path) {
    fs::File::create(path).unwrap();
    fs::remove_file(path).unwrap();
}

/// Asserts that the call failed, and that the file contains the first of the bytes and ends at its
/// position.
#[track_caller]
fn check(name: &str, result: io::Result<()>, mut file: File, bytes: &[u8]) {
    let errno = result.expect_err(name).raw_os_error();
    assert!(matches!(errno, Some(libc::EFBIG | libc::ENOSPC)), "{name}: {errno:?}");
    let len = file.metadata().unwrap().len();
    assert_eq!(file.stream_position().unwrap(), len, "{name}: the position is not the end");
    let mut found = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut found).unwrap();
    assert!(found == bytes[..found.len()], "{name}: the file has other bytes");
    assert!(!found.is_empty(), "{name}: nothing was written");
}

/// In the child: fills files on each driver and on a plain thread.
fn fill_everywhere() {
    let place = PathBuf::from(std::env::var_os(PLACE).expect("the parent set it"));
    let room = std::env::var(ROOM).unwrap().parse().unwrap();
    common::on_each(&[1], |runtime| runtime.run(|| fill(&place, room)));
    fill(&place, room);
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("ramie-disk-full-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Place(path)
    }

    /// Runs the test again as a child whose shell has run `first`.
    fn child(&self, first: &str, test: &str, room: usize) {
        let place = self.0.to_str().unwrap();
        let source = format!("{place}-source");
        fs::write(&source, too_much(room)).unwrap();
        let variables = [(PLACE, place), (ROOM, &room.to_string()), (SOURCE, &source)];
        let output = common::child_with(first, test, &variables);
        fs::remove_file(&source).unwrap();
        common::assert_success(&output);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn writes_report_the_limit_of_the_file_size() {
    if common::is_child() {
        return fill_everywhere();
    }
    // In blocks of 512 or 1,024 bytes, depending on the shell. The signal is inherited as ignored.
    let first = format!("trap '' XFSZ; ulimit -f {}", MIB / 512);
    let test = "writes_report_the_limit_of_the_file_size";
    Place::new("limit").child(&first, test, MIB);
}

/// Runs the rest of the child in a mount namespace of its own, after `mount`.
fn mounted(mount: &str) -> String {
    format!("exec unshare -m sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\"")
}

fn can(first: &str) -> bool {
    let status = Command::new("sh").args(["-c", &format!("{first} 2>/dev/null")]).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn writes_report_a_full_tmpfs() {
    if common::is_child() {
        return fill_everywhere();
    }
    let place = Place::new("tmpfs");
    let mount = format!("mount -t tmpfs -o size=1m none {}", place.0.display());
    if !can(&format!("unshare -m sh -c '{mount}'")) {
        return common::skipped("no tmpfs can be mounted here");
    }
    place.child(&mounted(&mount), "writes_report_a_full_tmpfs", MIB);
}

#[test]
fn writes_report_a_full_ext4() {
    if common::is_child() {
        return fill_everywhere();
    }
    let place = Place::new("ext4");
    let image = place.0.join("image");
    fs::File::create(&image).unwrap().set_len(4 * MIB as u64).unwrap();
    let (image, to) = (image.display(), place.0.display());
    let mount = format!("mount -o loop {image} {to}");
    let make = format!("mkfs.ext4 -q -m 0 -O ^has_journal {image} && unshare -m sh -c '{mount}'");
    if !can(&make) {
        return common::skipped("no ext4 can be made or mounted here");
    }
    place.child(&mounted(&mount), "writes_report_a_full_ext4", 4 * MIB);
}

/// A part of a file's bytes that begins at an address that direct I/O accepts.
fn aligned(buffer: &mut [u8]) -> &mut [u8] {
    let start = buffer.as_ptr().align_offset(4096);
    let len = (buffer.len() - start) / 4096 * 4096;
    &mut buffer[start..start + len]
}

#[test]
fn direct_reads_and_writes_move_the_position() {
    let place = Place::new("direct");
    let path = place.0.join("file");
    let mut options = fs::File::options();
    let open = options.read(true).write(true).create(true).custom_flags(libc::O_DIRECT);
    if open.open(&path).is_err() {
        return common::skipped("no direct I/O here");
    }
    let mut bytes = pattern(36_864);
    let bytes = aligned(&mut bytes);
    common::everywhere(|| {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let mut file = options.open(&path).unwrap();
        for (name, call) in [CALLS[0], CALLS[3]] {
            file.set_len(0).unwrap();
            file.rewind().unwrap();
            for part in bytes.chunks(4096) {
                assert_eq!(call(&file, part).unwrap(), 4096);
            }
            assert_eq!(file.stream_position().unwrap(), bytes.len() as u64, "{name}");
            assert!(fs::read(&path).unwrap() == *bytes, "{name}: the file has other bytes");
        }
        // Over existing bytes, because the kernel then waits for the device in the background.
        file.rewind().unwrap();
        for (nth, part) in bytes.chunks(4096).enumerate() {
            assert_eq!(ring::write(&file, part, None).unwrap(), 4096);
            assert_eq!(file.stream_position().unwrap(), 4096 * (nth as u64 + 1));
        }
        let mut buffer = vec![0; 12_288];
        let buffer = &mut aligned(&mut buffer)[..4096];
        for by_ring in [false, true] {
            file.rewind().unwrap();
            for part in bytes.chunks(4096) {
                let read =
                    if by_ring { ring::read(&file, buffer, None) } else { file.read(buffer) };
                assert_eq!(read.unwrap(), 4096);
                assert!(buffer == part, "a part is read from the wrong place");
            }
            assert_eq!(file.read(buffer).unwrap(), 0);
        }
        file.read_at(buffer, 4096).unwrap();
        assert_eq!(file.stream_position().unwrap(), bytes.len() as u64);
    });
}
