//! The file of a trace, which is there only once it is whole.
//!
//! It is written beside its place, under another name, and renamed in the end. So a failure leaves
//! an earlier file alone, and a symbolic link that another user has put there is not followed.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
};

use crate::{failure::Failure, signals};

/// A file that is being written. It is removed if this is dropped before the end.
pub(super) struct NewFile<'a> {
    file: File,
    path: &'a Path,
    /// The name until the end; none: the path leads to a device or a FIFO, which is written itself.
    part: Option<PathBuf>,
}

impl<'a> NewFile<'a> {
    /// Creates the file, which only this user may read, because it names places of the program.
    /// SIGTERM and Ctrl-C remove it before they end the program.
    pub(super) fn create(path: &'a Path) -> Result<NewFile<'a>, Failure> {
        let part = part_of(path);
        if let Some(part) = part.clone() {
            // Before the file is there, so that it never stays.
            signals::watch(move |signal| {
                let _ = fs::remove_file(&part);
                process::exit(128 + signal);
            })?;
        }
        NewFile::open(path, part).map_err(|error| cannot_write(path, &error))
    }

    fn open(path: &'a Path, part: Option<PathBuf>) -> io::Result<NewFile<'a>> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let file = match &part {
            Some(part) => options.create_new(true).open(part),
            None => options.open(path),
        }?;
        Ok(NewFile { file, path, part })
    }

    /// Writes the file, and gives it its name.
    pub(super) fn write(
        mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut sink = BufWriter::new(&self.file);
        let written = write(&mut sink).and_then(|()| sink.flush());
        drop(sink);
        let named = written.and_then(|()| match &self.part {
            Some(part) => fs::rename(part, self.path),
            None => Ok(()),
        });
        named.map_err(|error| cannot_write(self.path, &error))?;
        self.part = None;
        Ok(())
    }
}

/// The name of the file until the end; none: the path leads to a device or a FIFO.
fn part_of(path: &Path) -> Option<PathBuf> {
    let is_replaced = fs::metadata(path).map_or(true, |found| found.is_file());
    let mut part = OsString::from(path.file_name().filter(|_| is_replaced)?);
    part.push(format!(".{}.part", process::id()));
    Some(path.with_file_name(part))
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::other(format!(
        "cannot write {}: {error}; choose another file with --output",
        path.display()
    ))
}
