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
    time::SystemTime,
};

use ramie_driver::sys::effective_user_id;

const PREFIX: &str = "ramie-";
const ENDING: &str = ".trace";

/// Creates the next file of this process, in a directory that is created if it is missing, and
/// removes the oldest files if there are more than `most`.
///
/// # Errors
/// The text names the path.
pub(super) fn create(directory: &Path, most: usize) -> io::Result<(PathBuf, File)> {
    let explained = |error: io::Error, path: &Path| {
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(explained(error, directory));
        }
        _ => {}
    }
    // First, so that there is room on the disk.
    trim(directory, most.saturating_sub(1));
    for number in next_number(directory).. {
        let path = directory.join(format!("{PREFIX}{}-{number}{ENDING}", process::id()));
        // A new file only: a link that another user has made is not followed.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(explained(error, &path)),
        }
    }
    unreachable!("the numbers do not end")
}

/// The process and the number of a file of that form.
fn numbers_of(path: &Path) -> Option<(u32, u64)> {
    let name = path.file_name()?.to_str()?;
    let (process, number) = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?.split_once('-')?;
    Some((process.parse().ok()?, number.parse().ok()?))
}

fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| numbers_of(path).is_some())
}

/// The number behind those of this process.
fn next_number(directory: &Path) -> u64 {
    let own = files_in(directory).filter_map(|path| numbers_of(&path));
    let own = own.filter(|(process, _)| *process == process::id()).map(|(_, number)| number);
    own.max().map_or(1, |number| number.saturating_add(1))
}

/// Removes the oldest files of this user until `left` are left.
fn trim(directory: &Path, left: usize) {
    let user = effective_user_id();
    let age = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok()?;
        let is_own = found.is_file() && found.uid() == user;
        is_own.then(|| (found.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
    };
    let mut found: Vec<_> = files_in(directory).filter_map(age).collect();
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
        let folder = std::env::temp_dir().join(format!("ramie-trace-files-{}", process::id()));
        let folder = folder.join("new");
        let parent = folder.parent().unwrap();
        fs::create_dir(parent).unwrap();
        let (first, _) = create(&folder, 2).unwrap();
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(first.metadata().unwrap().mode() & 0o777, 0o600);
        let others = ["notes", "ramie-x-1.trace", "ramie-1-x.trace", "ramie-1.trace"];
        others.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        let (second, file) = create(&folder, 2).unwrap();
        file.set_modified(later).unwrap();
        // Of an earlier process, and the newest.
        let old = folder.join("ramie-4194305-7.trace");
        File::create(&old).unwrap().set_modified(later).unwrap();
        let (third, _) = create(&folder, 2).unwrap();
        let exist = [&first, &second, &old, &third].map(|path| path.exists());
        assert_eq!(exist.iter().filter(|exists| **exists).count(), 2, "{exist:?}");
        assert!(!first.exists() && third.exists());
        assert!(others.iter().all(|name| folder.join(name).exists()));
        assert_eq!(third, folder.join(format!("ramie-{}-3.trace", process::id())));
        // A link at the place of the next file is not followed.
        let target = parent.join("target");
        let link = folder.join(format!("ramie-{}-4.trace", process::id()));
        symlink(&target, &link).unwrap();
        let (fifth, _) = create(&folder, 9).unwrap();
        assert_eq!(fifth, folder.join(format!("ramie-{}-5.trace", process::id())));
        assert!(!target.exists());
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let error = create(Path::new("/nonexistent/traces"), 2).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/traces: "), "{error}");
    }
}
