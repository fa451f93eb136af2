//! The files of a flight recorder: a bounded number of them in one directory.
//!
//! A file has the name `ramie-PID-NUMBER.trace` and the mode 0600. The oldest files of that form go
//! when there are too many, also those of earlier processes, so that a program that is restarted
//! again and again does not fill the disk.

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

/// Creates the directory if it is missing, and checks that files can be made in it.
///
/// # Errors
/// The text names the path.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    let (path, _) = create(directory, usize::MAX, &AtomicU64::new(0))?;
    fs::remove_file(&path).map_err(|error| explained(error, &path))
}

/// Creates the next file of this process, in a directory that is created if it is missing, and
/// removes the oldest files if there are more than `most`. `next` is the number of the next file.
///
/// # Errors
/// The text names the path.
pub(super) fn create(
    directory: &Path,
    most: usize,
    next: &AtomicU64,
) -> io::Result<(PathBuf, File)> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(explained(error, directory));
        }
        _ => {}
    }
    // First, so that there is room on the disk.
    trim(directory, most.saturating_sub(1));
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{PREFIX}{}-{number}{ENDING}", process::id()));
        // A new file only: a link that another user has made is not followed.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(explained(error, &path)),
        }
    }
}

fn explained(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Whether a file has a name of that form.
fn is_trace(path: &Path) -> bool {
    let numbers = || {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?.split_once('-')
    };
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    numbers().is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Removes the oldest files of this user until `left` are left.
fn trim(directory: &Path, left: usize) {
    let user = effective_user_id();
    let age = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok()?;
        let is_own = found.is_file() && found.uid() == user;
        is_own.then(|| (found.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
    };
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = paths.filter(|path| is_trace(path)).filter_map(age).collect();
    found.sort();
    let surplus = found.len().saturating_sub(left);
    for (_, path) in found.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_number_of_files_is_bounded_and_others_are_left_alone() {
        let parent = std::env::temp_dir().join(format!("ramie-trace-files-{}", process::id()));
        fs::create_dir(&parent).unwrap();
        let (folder, next) = (parent.join("new"), AtomicU64::new(1));
        let own = |number: u64| folder.join(format!("ramie-{}-{number}.trace", process::id()));
        let (first, _) = create(&folder, 2, &next).unwrap();
        assert_eq!(first, own(1));
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(first.metadata().unwrap().mode() & 0o777, 0o600);
        let others = ["notes", "ramie-x-1.trace", "ramie-1-x.trace", "ramie-1.trace"];
        others.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        let (second, file) = create(&folder, 2, &next).unwrap();
        let at = |seconds| SystemTime::now() + std::time::Duration::from_secs(seconds);
        file.set_modified(at(5)).unwrap();
        // Of an earlier process, and the newest.
        let earlier = folder.join("ramie-4194305-7.trace");
        File::create(&earlier).unwrap().set_modified(at(10)).unwrap();
        let (third, _) = create(&folder, 2, &next).unwrap();
        assert_eq!(third, own(3));
        assert!(!first.exists() && !second.exists() && earlier.exists() && third.exists());
        assert!(others.iter().all(|name| folder.join(name).exists()));
        // A link at the place of the next file is not followed.
        let target = parent.join("target");
        symlink(&target, own(4)).unwrap();
        assert_eq!(create(&folder, 9, &next).unwrap().0, own(5));
        assert!(!target.exists());
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let error = create(Path::new("/nonexistent/traces"), 2, &AtomicU64::new(1)).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/traces: "), "{error}");
    }
}
