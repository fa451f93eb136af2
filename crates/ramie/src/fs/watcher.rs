//! Watching files and whole trees for changes, by inotify.
//!
//! The kernel watches single folders and tells each by a number; this file knows which number
//! stands for which path. The races to fear: a folder fills before it is watched, and a folder is
//! renamed while notices name it by its number. So a new folder is watched first and listed then
//! (what comes in between is told twice), and a rename changes the paths of all that is below.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use ramie_driver::sys::{self, Notice};

use crate::{blocking, io::Async};

/// A change of a watched file, or below a watched folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What has changed: the watched path, and for an entry its name behind that.
    pub path: PathBuf,
    /// How.
    pub kind: ChangeKind,
    /// It is a folder.
    pub is_dir: bool,
}

/// What has become of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is there now: made, or moved to here from where nobody watches.
    Created,
    /// Its content has changed; whoever writes may go on.
    Modified,
    /// It was closed by one who could write: what was to be written is there.
    Written,
    /// Its permissions, owner, times or links have changed.
    Attributes,
    /// It is gone: removed, or moved to where nobody watches.
    Removed,
    /// It had another name, which was watched, too.
    Renamed {
        /// That name.
        from: PathBuf,
    },
    /// More has changed than the kernel keeps (`fs.inotify.max_queued_events`): look for yourself.
    /// The path is the watched one.
    Lost,
}

/// An iterator over the changes of a file, of a folder's entries, or of a whole tree.
///
/// It never ends while what it watches is there.
///
/// # Blocking
/// Each step parks the fiber, or the thread outside one, until something changes.
///
/// # Cancellation
/// Each step is a cancel point, and loses no change.
///
/// # Errors
/// Of a step: a new folder cannot be watched (`ENOSPC`: raise the sysctl
/// `fs.inotify.max_user_watches`; `PermissionDenied`). Its path is in the error; the others are
/// watched on.
///
/// # Examples
/// ```
/// use ramie::fs::{self, ChangeKind, Watcher};
///
/// let folder = std::env::temp_dir().join(format!("ramie-doc-watch-{}", std::process::id()));
/// fs::create_dir(&folder)?;
/// let mut changes = Watcher::tree(&folder)?;
/// fs::write(folder.join("new"), "text")?;
/// let first = changes.next().unwrap()?;
/// assert_eq!((first.path, first.kind), (folder.join("new"), ChangeKind::Created));
/// fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Watcher {
    queue: Async<OwnedFd>,
    root: PathBuf,
    is_tree: bool,
    /// What each of the kernel's numbers stands for.
    paths: HashMap<i32, PathBuf>,
    ready: VecDeque<io::Result<Change>>,
}

/// One notice, with what it borrows.
struct Told {
    watch: i32,
    notice: Notice,
    is_dir: bool,
    name: OsString,
}

impl Watcher {
    /// Watches a file, or a folder and its entries, but not theirs.
    ///
    /// # Blocking
    /// Parks the strand while the path is looked up.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// Those of opening the path. `EMFILE`, `ENOSPC`: beyond the limits of inotify(7), whose
    /// sysctls are in its manual.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Watcher> {
        Self::start(path.as_ref(), false)
    }

    /// Watches a folder and all folders below it, also those to come. Links are not followed.
    ///
    /// # Blocking
    /// Parks the strand while the folders are listed.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// As of [`new`](Self::new), for each folder. `NotADirectory`.
    pub fn tree(path: impl AsRef<Path>) -> io::Result<Watcher> {
        Self::start(path.as_ref(), true)
    }

    fn start(root: &Path, is_tree: bool) -> io::Result<Watcher> {
        let queue = Async::from_fd(sys::inotify()?)?;
        let (root, paths) = (root.to_owned(), HashMap::new());
        let mut watcher = Watcher { queue, root, is_tree, paths, ready: VecDeque::new() };
        let root = watcher.root.clone();
        if is_tree {
            watcher.take_in(root, |_, _| ())?;
        } else {
            let watch = blocking(|| sys::inotify_watch(watcher.queue.get_ref(), &root, false));
            let watch = watch.map_err(|error| at(&root, &error))?;
            watcher.paths.insert(watch, root);
        }
        Ok(watcher)
    }

    /// Watches a folder and those below it; tells of each entry.
    fn take_in(
        &mut self,
        folder: PathBuf,
        mut found: impl FnMut(PathBuf, bool) + Send,
    ) -> io::Result<()> {
        let (queue, paths) = (self.queue.get_ref().as_fd(), &mut self.paths);
        blocking(|| {
            let mut folders = vec![folder];
            while let Some(folder) = folders.pop() {
                let is_root = paths.is_empty();
                let entries = sys::inotify_watch(queue, &folder, true).and_then(|watch| {
                    paths.insert(watch, folder.clone());
                    std::fs::read_dir(&folder)
                });
                let entries = match entries {
                    // It was there a moment ago.
                    Err(error) if !is_root && error.kind() == io::ErrorKind::NotFound => continue,
                    entries => entries.map_err(|error| at(&folder, &error))?,
                };
                for entry in entries.map_while(Result::ok) {
                    let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    found(entry.path(), is_dir);
                    if is_dir {
                        folders.push(entry.path());
                    }
                }
            }
            Ok(())
        })
    }

    /// Waits for notices and makes changes of them.
    #[track_caller]
    fn collect(&mut self) -> io::Result<()> {
        let mut told = Vec::new();
        self.queue.with_read(|queue| read(queue, &mut told))?;
        // The second half of a rename may be left in the kernel's queue.
        if matches!(told.last(), Some(Told { notice: Notice::MovedFrom(_), .. })) {
            let _ = read(self.queue.get_ref(), &mut told);
        }
        let mut told = told.into_iter().peekable();
        while let Some(this) = told.next() {
            let other_half = told.next_if(|next| is_rename(&this, next));
            self.translate(this, other_half);
        }
        Ok(())
    }

    fn translate(&mut self, told: Told, renamed_to: Option<Told>) {
        let Told { watch, notice, is_dir, name } = told;
        if notice == Notice::Overflow {
            self.tell(self.root.clone(), ChangeKind::Lost, true);
            return;
        }
        if notice == Notice::Unwatched {
            self.paths.remove(&watch);
            return;
        }
        let Some(folder) = self.paths.get(&watch) else { return };
        if name.is_empty() && *folder != self.root {
            // Its parent tells the same.
            return;
        }
        let path = if name.is_empty() { folder.clone() } else { folder.join(name) };
        match notice {
            Notice::Created | Notice::MovedTo(_) => self.created(path, is_dir),
            Notice::MovedFrom(_) => match renamed_to.and_then(|to| self.path_of(&to)) {
                Some(to) => self.renamed(path, to, is_dir),
                None => self.gone(path, is_dir),
            },
            Notice::Deleted => self.gone(path, is_dir),
            Notice::Modified => self.tell(path, ChangeKind::Modified, is_dir),
            Notice::Written => self.tell(path, ChangeKind::Written, is_dir),
            Notice::Attributes => self.tell(path, ChangeKind::Attributes, is_dir),
            Notice::Unwatched | Notice::Overflow => {}
        }
    }

    fn path_of(&self, told: &Told) -> Option<PathBuf> {
        Some(self.paths.get(&told.watch)?.join(&told.name))
    }

    fn created(&mut self, path: PathBuf, is_dir: bool) {
        self.tell(path.clone(), ChangeKind::Created, is_dir);
        if !is_dir || !self.is_tree {
            return;
        }
        let mut found = Vec::new();
        let taken_in = self.take_in(path, |path, is_dir| found.push((path, is_dir)));
        for (path, is_dir) in found {
            self.tell(path, ChangeKind::Created, is_dir);
        }
        if let Err(error) = taken_in {
            self.ready.push_back(Err(error));
        }
    }

    fn renamed(&mut self, from: PathBuf, to: PathBuf, is_dir: bool) {
        for path in self.paths.values_mut() {
            if let Ok(below) = path.strip_prefix(&from) {
                // Joining nothing would add a slash.
                *path = if below.as_os_str().is_empty() { to.clone() } else { to.join(below) };
            }
        }
        self.tell(to, ChangeKind::Renamed { from }, is_dir);
    }

    fn gone(&mut self, path: PathBuf, is_dir: bool) {
        let queue = self.queue.get_ref();
        self.paths.retain(|watch, watched| {
            let is_below = *watched != self.root && watched.starts_with(&path);
            if is_below {
                // Moved away, it would tell of its entries under names that are no more.
                let _ = sys::inotify_unwatch(queue, *watch);
            }
            !is_below
        });
        self.tell(path, ChangeKind::Removed, is_dir);
    }

    fn tell(&mut self, path: PathBuf, kind: ChangeKind, is_dir: bool) {
        self.ready.push_back(Ok(Change { path, kind, is_dir }));
    }
}

impl Iterator for Watcher {
    type Item = io::Result<Change>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<Change>> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            if self.paths.is_empty() {
                return None;
            }
            if let Err(error) = self.collect() {
                return Some(Err(error));
            }
        }
    }
}

fn read(queue: &OwnedFd, told: &mut Vec<Told>) -> io::Result<()> {
    sys::inotify_read(queue, |watch, notice, is_dir, name| {
        told.push(Told { watch, notice, is_dir, name: name.to_owned() });
    })
}

fn is_rename(from: &Told, to: &Told) -> bool {
    match (from.notice, to.notice) {
        (Notice::MovedFrom(from), Notice::MovedTo(to)) => from == to,
        _ => false,
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "; raise the sysctl fs.inotify.max_user_watches",
        _ => "",
    };
    io::Error::new(error.kind(), format!("watching {}: {error}{hint}", path.display()))
}
