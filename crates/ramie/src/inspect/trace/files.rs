//! The files of a flight recorder: a bounded number of them in one directory.
//!
//! A file has the name `ramie-PID-START-NUMBER.trace` and the mode 0600; START is the time at which
//! the process began, as `/proc/PID/stat` has it. When there are too many files, a process removes
//! the oldest ones of its own and of processes that have ended, so that a program that is restarted
//! again and again does not fill the disk. Those of other processes that run are left alone. (Of
//! processes in another PID namespace nothing is known, so they count as ended.)

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use ramie_driver::sys::effective_user_id;

const PREFIX: &str = "ramie-";
const ENDING: &str = ".trace";

/// A new file. It is removed when this is dropped, unless it is kept, so that a full disk leaves no
/// part of a trace.
pub(super) struct TraceFile {
    pub(super) file: File,
    path: PathBuf,
    is_kept: bool,
}

impl TraceFile {
    /// Keeps the file, which is whole, and returns its path.
    pub(super) fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.path.clone()
    }

    /// The same error, with the path and the remedy.
    pub(super) fn explain(&self, error: &io::Error) -> io::Error {
        explained(error, &self.path)
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the directory if it is missing, and checks that files can be made in it.
///
/// # Errors
/// The text names the path.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    create(directory, usize::MAX, &AtomicU64::new(0)).map(drop)
}

/// Creates the next file of this process, in a directory that is created if it is missing, and
/// removes the oldest files if this process and those that have ended have more than `most`. `next`
/// is the number of the next file.
///
/// # Errors
/// The text names the path.
pub(super) fn create(directory: &Path, most: usize, next: &AtomicU64) -> io::Result<TraceFile> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(explained(&error, directory));
        }
        _ => {}
    }
    let own = Writer::this_process();
    // First, so that there is room on the disk.
    trim(directory, own, most.saturating_sub(1));
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{}-{number}{ENDING}", own.process, own.start);
        let path = directory.join(name);
        // A new file only: a link that another user has made is not followed.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok(TraceFile { file, path, is_kept: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(explained(&error, &path)),
        }
    }
}

fn explained(error: &io::Error, path: &Path) -> io::Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let cure = match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            "; free some space there, or choose another directory"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("{}: {error}{cure}", path.display()))
}

/// A process that writes traces, as the names of its files have it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Writer {
    process: u32,
    /// In ticks since the boot; 0 if there is no /proc.
    start: u64,
}

impl Writer {
    fn this_process() -> Writer {
        Writer { process: process::id(), start: start_of("self").unwrap_or_default() }
    }

    /// The process that has written a file; `None`: no recorder has.
    fn of(path: &Path) -> Option<Writer> {
        let name = path.file_name()?.to_str()?;
        let numbers = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?;
        let mut numbers = numbers.split('-').map(|number| number.parse::<u64>().ok());
        let [process, start, _] = [numbers.next()??, numbers.next()??, numbers.next()??];
        let process = u32::try_from(process).ok()?;
        numbers.next().is_none().then_some(Writer { process, start })
    }

    /// Where no process can be looked at, as in a chroot without /proc, none counts as ended.
    fn has_ended(self) -> bool {
        if self.start == 0 || start_of("self").is_none() {
            return false;
        }
        start_of(&self.process.to_string()) != Some(self.start)
    }
}

/// The time at which a process began, in ticks since the boot; `None` if it has ended.
fn start_of(process: &str) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    let behind_name = stat.rsplit(|byte| *byte == b')').next()?;
    let mut fields = str::from_utf8(behind_name).ok()?.split_whitespace();
    let state = fields.next()?;
    // Of a process for which its parent has not waited yet.
    let is_over = ["Z", "X"].contains(&state);
    fields.nth(18)?.parse().ok().filter(|_| !is_over)
}

/// Removes the oldest files of this user that are of this process, or of one that has ended, until
/// `left` are left.
fn trim(directory: &Path, own: Writer, left: usize) {
    let user = effective_user_id();
    let is_ours =
        |path: &PathBuf| Writer::of(path).is_some_and(|writer| writer == own || writer.has_ended());
    let age = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok()?;
        let is_own = found.is_file() && found.uid() == user;
        is_own.then(|| (found.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
    };
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = paths.filter(is_ours).filter_map(age).collect();
    found.sort();
    let surplus = found.len().saturating_sub(left);
    for (_, path) in found.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process::Command, time::Duration};

    use super::*;

    /// The name of a file of a process.
    fn name(writer: Writer, number: u64) -> String {
        format!("ramie-{}-{}-{number}.trace", writer.process, writer.start)
    }

    #[test]
    fn the_number_of_files_is_bounded_and_others_are_left_alone() {
        let parent = std::env::temp_dir().join(format!("ramie-trace-files-{}", process::id()));
        fs::create_dir(&parent).unwrap();
        let (folder, next) = (parent.join("new"), AtomicU64::new(1));
        let own = |number| folder.join(name(Writer::this_process(), number));
        let create = |most| create(&folder, most, &next).unwrap();
        let first = create(2).keep();
        assert_eq!(first, own(1));
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(first.metadata().unwrap().mode() & 0o777, 0o600);
        let others = ["notes", "ramie-x-1-1.trace", "ramie-1-1.trace", "ramie-1-1-1-1.trace"];
        others.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        let second = create(2);
        let at = |seconds| SystemTime::now() + Duration::from_secs(seconds);
        second.file.set_modified(at(5)).unwrap();
        let second = second.keep();
        // Of an earlier process, and the newest.
        let earlier = folder.join("ramie-4194305-1-7.trace");
        File::create(&earlier).unwrap().set_modified(at(10)).unwrap();
        let third = create(2).keep();
        assert_eq!(third, own(3));
        assert!(!first.exists() && !second.exists() && earlier.exists() && third.exists());
        assert!(others.iter().all(|name| folder.join(name).exists()));
        // A link at the place of the next file is not followed.
        let target = parent.join("target");
        symlink(&target, own(4)).unwrap();
        assert_eq!(create(9).keep(), own(5));
        assert!(!target.exists());
        // A file that is not kept is removed.
        drop(create(9));
        assert!(own(5).exists() && !own(6).exists());
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn files_of_processes_that_run_are_left_alone() {
        let folder = std::env::temp_dir().join(format!("ramie-trace-others-{}", process::id()));
        let next = AtomicU64::new(1);
        // It ends when its stdin does.
        let mut other = Command::new("cat").stdin(process::Stdio::piped()).spawn().unwrap();
        let start = start_of(&other.id().to_string()).unwrap();
        let writer = Writer { process: other.id(), start };
        // The same id, which an earlier process had.
        let reused = Writer { start: start - 1, ..writer };
        fs::create_dir(&folder).unwrap();
        let [running, earlier] = [writer, reused].map(|writer| folder.join(name(writer, 1)));
        [&running, &earlier].into_iter().for_each(|path| fs::write(path, "").unwrap());
        drop(create(&folder, 1, &next).unwrap());
        assert!(running.exists() && !earlier.exists());
        other.kill().unwrap();
        // It has ended, although nobody has waited for it.
        while start_of(&other.id().to_string()).is_some() {
            std::thread::yield_now();
        }
        drop(create(&folder, 1, &next).unwrap());
        assert!(!running.exists());
        other.wait().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let made = create(Path::new("/nonexistent/traces"), 2, &AtomicU64::new(1));
        let error = made.map(drop).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/traces: "), "{error}");
    }
}
