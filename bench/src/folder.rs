//! A folder for the files of servers.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
};

/// A new folder among the temporary files, which is removed when the value is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn create() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("ramie-bench-{}", process::id()));
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
