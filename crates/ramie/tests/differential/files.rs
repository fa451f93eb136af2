//! Files: positions, appending, truncating, holes, vectors, duplicates; paths; limits.

use std::path::{Path, PathBuf};

use crate::{
    common, compare,
    file_steps::{Step, step},
};

/// The directory of one sequence; relative names lie in it.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let place = std::env::var_os(PLACE).map_or_else(std::env::temp_dir, PathBuf::from);
        let path = place.join(format!("ramie-differential-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("0"), [b'0'; 5000]).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn path_of(dir: &Path, name: usize) -> PathBuf {
    match name {
        6 => "/dev/full".into(),
        7 => "/dev/null".into(),
        _ => dir.join(name.to_string()),
    }
}

/// The program, with whichever library goes by the name of `std`.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                fs::{self, File},
                io::{self, BufWriter, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
                os::unix::fs::{FileExt, MetadataExt, symlink},
            };

            use $library as std;

            use super::{Dir, Step, path_of};
            use crate::{bytes, digest, told, trace};

            pub(super) fn run(steps: &[Step]) -> Vec<String> {
                let dir = Dir::new();
                let mut files = [None, None, None];
                let mut trace = trace(steps, |step, nth| {
                    let result = call(&dir, &mut files, step, nth)?;
                    let states = files.each_mut().map(|file| file.as_mut().map(state));
                    Some(format!("{result}; {states:?}"))
                });
                drop(files);
                trace.push(list(&dir));
                trace
            }

            fn state(file: &mut File) -> String {
                let len = file.metadata().map(|metadata| metadata.len());
                format!("at {} of {}", told(file.stream_position()), told(len))
            }

            /// All names with their files.
            fn list(dir: &Dir) -> String {
                let mut names: Vec<_> = fs::read_dir(&dir.0)
                    .unwrap()
                    .map(|entry| {
                        let entry = entry.unwrap();
                        let kind = entry.file_type().unwrap();
                        let is_file = fs::metadata(entry.path()).is_ok_and(|found| found.is_file());
                        let content =
                            is_file.then(|| told(fs::read(entry.path()).map(|all| digest(&all))));
                        format!("{:?} {kind:?} {content:?}", entry.file_name())
                    })
                    .collect();
                names.sort();
                names.join(", ")
            }

            fn open(dir: &Dir, name: usize, flags: u8) -> io::Result<File> {
                let has = |bit: u8| flags & (1 << bit) != 0;
                let mut options = File::options();
                options.read(has(0)).write(has(1)).append(has(2) && has(3));
                options.truncate(has(4) && has(5)).create(has(6)).create_new(has(7) && has(4));
                options.open(path_of(&dir.0, name))
            }

            fn call(
                dir: &Dir,
                files: &mut [Option<File>; 3],
                step: &Step,
                nth: usize,
            ) -> Option<String> {
                Some(match *step {
                    Step::Open { to, name, flags } => {
                        let opened = open(dir, name, flags);
                        let result = opened.as_ref().map(drop).map_err(|error| {
                            error
                                .raw_os_error()
                                .map_or(error.kind().into(), io::Error::from_raw_os_error)
                        });
                        files[to] = opened.ok().or(files[to].take());
                        told(result)
                    }
                    Step::Duplicate { from, to } => {
                        files[to] = Some(files[from].as_ref()?.try_clone().unwrap());
                        String::new()
                    }
                    Step::Close(file) => {
                        files[file] = None;
                        String::new()
                    }
                    Step::Copy { from, to } => {
                        let (mut source, mut target) = (files[from].as_ref()?, files[to].as_ref()?);
                        // A device may have no end, and would fill the disk.
                        if !source.metadata().unwrap().is_file() {
                            return None;
                        }
                        // The outcome of a copy onto itself depends on the size of its parts.
                        let ids = [source, target].map(|file| file.metadata().unwrap().ino());
                        if ids[0] == ids[1] {
                            return None;
                        }
                        let copied = io::copy(&mut source, &mut target);
                        // A device takes bytes from a buffer, whose rest std loses; and of the
                        // bytes that it takes off a file for a full disk it loses up to a page.
                        let errno = copied.as_ref().err().and_then(io::Error::raw_os_error);
                        let is_full = matches!(errno, Some(libc::ENOSPC | libc::EFBIG));
                        let is_device = !target.metadata().unwrap().is_file();
                        if is_full || errno.is_some() && is_device {
                            source.rewind().unwrap();
                        }
                        told(copied)
                    }
                    ref step => call_on(files, step, nth).or_else(|| call_path(dir, step, nth))?,
                })
            }

            fn call_on(files: &[Option<File>; 3], step: &Step, nth: usize) -> Option<String> {
                let read = |buf: &[u8], result: io::Result<usize>| {
                    let digested = result.as_ref().map_or(0, |count| digest(&buf[..*count]));
                    format!("{} {digested:x}", told(result))
                };
                Some(match *step {
                    Step::Read { file, len } => {
                        let mut buf = vec![0; len];
                        let result = files[file].as_ref()?.read(&mut buf);
                        read(&buf, result)
                    }
                    Step::ReadVectored { file, lens } => {
                        let mut buf = vec![0; lens.0 + lens.1];
                        let (one, other) = buf.split_at_mut(lens.0);
                        let mut bufs = [IoSliceMut::new(one), IoSliceMut::new(other)];
                        let result = files[file].as_ref()?.read_vectored(&mut bufs);
                        read(&buf, result)
                    }
                    Step::ReadAt { file, len, at } => {
                        let mut buf = vec![0; len];
                        let result = files[file].as_ref()?.read_at(&mut buf, at);
                        read(&buf, result)
                    }
                    Step::ReadToEnd(file) => {
                        let mut buf = Vec::new();
                        let mut file = files[file].as_ref()?;
                        // A device may have no end.
                        if !file.metadata().unwrap().is_file() {
                            return None;
                        }
                        let result = file.read_to_end(&mut buf);
                        read(&buf, result)
                    }
                    Step::ReadExact { file, len } => {
                        let mut buf = vec![0; len];
                        let result = files[file].as_ref()?.read_exact(&mut buf);
                        let digested = if result.is_ok() { digest(&buf) } else { 0 };
                        format!("{} {digested:x}", told(result))
                    }
                    Step::Write { file, len } => {
                        told(files[file].as_ref()?.write(&bytes(len, nth)))
                    }
                    Step::WriteAll { file, len } => {
                        told(files[file].as_ref()?.write_all(&bytes(len, nth)))
                    }
                    Step::WriteVectored { file, lens } => {
                        let (one, other) = (bytes(lens.0, nth), bytes(lens.1, nth + 1));
                        let bufs = [IoSlice::new(&one), IoSlice::new(&other)];
                        told(files[file].as_ref()?.write_vectored(&bufs))
                    }
                    Step::WriteAt { file, len, at } => {
                        told(files[file].as_ref()?.write_at(&bytes(len, nth), at))
                    }
                    Step::Buffered { file, len } => {
                        let mut buffered = BufWriter::with_capacity(3000, files[file].as_ref()?);
                        let result = bytes(len, nth)
                            .chunks(700)
                            .try_for_each(|part| buffered.write_all(part));
                        let flushed = result.and_then(|()| buffered.flush());
                        drop(buffered.into_parts());
                        told(flushed)
                    }
                    Step::Seek { file, whence, by } => {
                        let to = match whence {
                            0 => SeekFrom::Start(by.cast_unsigned()),
                            1 => SeekFrom::Current(by),
                            _ => SeekFrom::End(by),
                        };
                        told(files[file].as_ref()?.seek(to))
                    }
                    Step::SetLen { file, len } => told(files[file].as_ref()?.set_len(len)),
                    Step::Sync(file) => told(files[file].as_ref()?.sync_data()),
                    _ => return None,
                })
            }

            fn call_path(dir: &Dir, step: &Step, nth: usize) -> Option<String> {
                let at = |name| path_of(&dir.0, name);
                Some(match *step {
                    Step::Rename { from, to } => told(fs::rename(at(from), at(to))),
                    Step::Remove(name) => told(fs::remove_file(at(name))),
                    Step::MakeDir(name) => told(fs::create_dir(at(name))),
                    Step::RemoveDir(name) => told(fs::remove_dir(at(name))),
                    Step::Link { from, to } => told(fs::hard_link(at(from), at(to))),
                    Step::Symlink { from, to } => told(symlink(at(from), at(to))),
                    Step::CopyPath { from, to } => told(fs::copy(at(from), at(to))),
                    Step::ReadPath(name) => told(fs::read(at(name)).map(|all| digest(&all))),
                    Step::WritePath { name, len } => told(fs::write(at(name), bytes(len, nth))),
                    Step::Describe(name) => told(fs::symlink_metadata(at(name)).map(|found| {
                        (found.file_type(), found.nlink(), found.permissions().readonly())
                    })),
                    Step::List => list(dir),
                    _ => return None,
                })
            }
        }
    };
}

program!(std as with_std);
program!(ramie as with_ours);

const PLACE: &str = "RAMIE_TEST_PLACE";

fn compare_files(what: &str) {
    compare(what, step(), with_std::run, with_ours::run);
}

#[test]
fn files_are_as_with_std() {
    compare_files("files");
}

/// Compares in a process that is started by a shell after these commands.
fn in_child(test: &str, first: &str, place: &Path) {
    let mut variables = vec![(PLACE, place.to_str().unwrap().to_owned())];
    for name in ["SEED", "RAMIE_DIFFERENTIAL"] {
        variables.extend(std::env::var(name).ok().map(|value| (name, value)));
    }
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    // Under load a sequence takes up to half a second.
    let output = common::child_for(60 + crate::cases(), first, test, &variables);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    common::assert_success(&output);
}

#[test]
fn files_with_a_limit_are_as_with_std() {
    if common::is_child() {
        return compare_files("files with a limit");
    }
    let test = "files::files_with_a_limit_are_as_with_std";
    // In blocks of 512 or 1,024 bytes, as the shell has it.
    in_child(test, "trap '' XFSZ; ulimit -f 250", &std::env::temp_dir());
}

#[test]
fn files_on_a_small_disk_are_as_with_std() {
    if common::is_child() {
        return compare_files("files on a small disk");
    }
    let place = std::env::temp_dir().join(format!("ramie-small-disk-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let mount = format!("mount -t tmpfs -o size=300k none {}", place.display());
    let mount = format!("exec unshare -m sh -c '{mount} && exec \"$0\" \"$@\"'");
    let can = std::process::Command::new("sh").args(["-c", &format!("{mount} true")]).status();
    if can.is_ok_and(|status| status.success()) {
        let first = format!("{mount} \"$0\" \"$@\"");
        in_child("files::files_on_a_small_disk_are_as_with_std", &first, &place);
    } else {
        common::skipped("no tmpfs can be mounted here");
    }
    std::fs::remove_dir(&place).unwrap();
}
