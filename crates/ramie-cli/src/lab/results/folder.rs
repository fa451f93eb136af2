//! The directory of a report: always a new or empty one, so no older report is overwritten.
//!
//! Creating the journal in it claims it, because two labs may start at the same moment.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::journal::Journal;
use crate::failure::Failure;

/// How many names are tried.
const NAMES_MAX: u32 = 10_000;

/// Creates a directory and its journal: `wanted`, or `wanted-2`, `wanted-3` and so on if `wanted`
/// is a directory that is not empty.
pub(crate) fn claim(wanted: &Path) -> Result<(PathBuf, Journal), Failure> {
    // Checks that the path exists and is no directory, such as /dev/null or the report of an
    // earlier run, rather than that the path is no directory: a missing one will be created.
    if fs::metadata(wanted).is_ok_and(|found| !found.is_dir()) {
        return Err(Failure::usage(format!(
            "--out is `{}`, which exists and is no folder; name a folder, or a new path",
            wanted.display()
        )));
    }
    let cannot = |error: io::Error| {
        Failure::other(format!(
            "cannot create the folder {} ({error}); name another with --out",
            wanted.display()
        ))
    };
    if let Some(parent) = wanted.parent() {
        fs::create_dir_all(parent).map_err(cannot)?;
    }
    for number in 1..NAMES_MAX {
        let path = if number == 1 { wanted.to_owned() } else { numbered(wanted, number) };
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cannot(error));
            }
            Err(_) if is_empty_folder(&path) => {}
            Err(_) => continue,
        }
        if let Some(journal) = Journal::create(&path).map_err(cannot)? {
            return Ok((path, journal));
        }
    }
    Err(cannot(io::ErrorKind::AlreadyExists.into()))
}

fn numbered(wanted: &Path, number: u32) -> PathBuf {
    let mut name = wanted.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    wanted.with_file_name(name)
}

fn is_empty_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Writes a file into the directory: whole, or not at all. A file of this name stays as it is
/// unless the new one is whole. The error is a sentence without the remedy.
pub(crate) fn write(folder: &Path, name: &str, content: &str) -> Result<PathBuf, String> {
    let (path, partial) = (folder.join(name), folder.join(format!("{name}.partial")));
    let written = fs::write(&partial, content).and_then(|()| fs::rename(&partial, &path));
    written.map_err(|error| {
        // It may not exist.
        let _ = fs::remove_file(&partial);
        format!("cannot write {} ({error})", path.display())
    })?;
    Ok(path)
}

/// Writes a file whose place the user chooses with `flag`.
pub(crate) fn write_file(path: &Path, content: &str, flag: &str) -> Result<PathBuf, Failure> {
    fs::write(path, content).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "create its folder first",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some disk space",
            _ => "make that possible",
        };
        Failure::other(format!(
            "cannot write {} ({error}); {advice}, or name another place with {flag}",
            path.display()
        ))
    })?;
    Ok(path.to_owned())
}
