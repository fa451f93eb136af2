//! Watching files and whole trees for changes, by inotify.
//!
//! The kernel watches single folders and names each by a number in its notices. This module turns
//! notices into changes; [`folders`] records which number stands for which folder, [`tree`] finds
//! the folders in the file system, and [`root`] is where each of their paths begins.

mod folders;
mod root;
mod tree;

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use ramie_driver::sys::{self, Notice};

use self::tree::{ReadyChanges, Tree};
use crate::{
    core::{cancel::Steps, wait::park::WaitKind},
    op::{blocking, readiness},
};

static NOTICES: WaitKind = WaitKind::of_op("a descriptor to become readable");

/// The most notices that are read before they are turned into changes.
const MOST_AT_ONCE: usize = 4096;
/// The number of notices after the first half of a rename among which the second half is searched.
/// The second half follows directly, unless other CPUs add notices in between.
const LARGEST_GAP: usize = 64;

/// A change of a watched file, or below a watched folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The changed path: the watched path, followed by the entry's name if an entry changed.
    pub path: PathBuf,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// Whether the path is a folder.
    pub is_dir: bool,
}

/// The kind of a change of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It was created, or moved here from a folder that is not watched.
    Created,
    /// Its content has changed, and the writer may change more.
    Modified,
    /// It was closed by a writer, so its content is complete.
    Written,
    /// Its permissions, owner, times or links have changed.
    Attributes,
    /// It was removed, or moved to a folder that is not watched.
    Removed,
    /// It was renamed from another path, which was watched, too.
    Renamed {
        /// The earlier path.
        from: PathBuf,
    },
    /// Changes were lost, because more were waiting than the kernel keeps (sysctl
    /// `fs.inotify.max_queued_events`). Scan the files again. The path is the watched one. The
    /// watcher has already listed all folders of a tree again, so later changes are reported with
    /// correct paths.
    Lost,
}

/// An iterator over the changes of a file, of a folder's entries, or of a whole tree.
///
/// Outside a cancelled scope the iteration never ends while the watched file or folder exists. The
/// path is looked up once, when the watcher is made. What it led to then stays watched, also if it
/// is renamed or moved, a folder above is, or a link on the path or the working directory changes;
/// reports still begin with the path as it was given. (A tree needs /proc for that: without it, new
/// folders below a root that was moved are not watched.)
///
/// A change in a tree names the path that its folder has when the change is read. A folder that was
/// renamed, or moved into the tree, is watched with all folders below it. Entries that were in a
/// new folder before it was watched are reported as `Created`, perhaps twice.
///
/// # Blocking
/// Each step parks the fiber, or the thread outside one, until something changes.
///
/// # Cancellation
/// Each step is a cancel point; a cancelled step loses no change. In a cancelled scope one step
/// yields the error, and the next one is `None`, so that a loop which continues after errors ends.
/// Outside the scope the iteration continues.
///
/// # Errors
/// A step fails if a new folder cannot be watched (`ENOSPC`: raise the sysctl
/// `fs.inotify.max_user_watches`; or `PermissionDenied`). The error names the folder; the other
/// folders are still watched.
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
    queue: OwnedFd,
    tree: Tree,
    is_tree: bool,
    ready: ReadyChanges,
    steps: Steps,
}

/// One notice of the kernel.
struct WatchNotice {
    watch: i32,
    kind: Notice,
    is_dir: bool,
    name: OsString,
}

impl Watcher {
    /// Watches a file, or a folder and its direct entries.
    ///
    /// # Blocking
    /// Parks the strand while the path is looked up.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// The path cannot be opened. `EMFILE`, `ENOSPC`: a limit of inotify is reached; inotify(7)
    /// lists the sysctls that raise it.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Watcher> {
        Self::start(path.as_ref(), false)
    }

    /// Watches a folder and all folders below it, including folders created later. If the path is a
    /// symbolic link, the target that it has now is watched, also after the link was changed;
    /// symbolic links below are not followed.
    ///
    /// The watcher keeps the folder open, so its file system cannot be unmounted meanwhile. It also
    /// watches the folder above for removals, because the kernel does not report the end of an open
    /// folder. If the folder above may not be read, the iteration does not end with the folder.
    ///
    /// # Blocking
    /// Parks the strand while the folders are listed.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), for each folder; `EMFILE` also if the process is out of
    /// descriptors. `NotADirectory`: the path is not a folder.
    pub fn tree(path: impl AsRef<Path>) -> io::Result<Watcher> {
        Self::start(path.as_ref(), true)
    }

    fn start(root: &Path, is_tree: bool) -> io::Result<Watcher> {
        let queue = sys::inotify()?;
        let tree = blocking(|| {
            let (queue, root) = (queue.as_fd(), root.to_owned());
            if is_tree { Tree::of_all(queue, root) } else { Tree::of_one(queue, root) }
        })?;
        Ok(Watcher { queue, tree, is_tree, ready: VecDeque::new(), steps: Steps::Going })
    }

    /// Waits for notices and translates them to changes.
    #[track_caller]
    fn collect(&mut self) -> io::Result<()> {
        let mut notices = Vec::new();
        let queue = self.queue.as_fd();
        // inotify's descriptor is nonblocking.
        readiness::call_until_done(&NOTICES, queue, sys::POLL_IN, true, || {
            read(&self.queue, &mut notices)
        })?;
        let is_cut = |notices: &Vec<WatchNotice>| {
            // The second half of a rename may be left in the kernel's queue.
            matches!(notices.last(), Some(WatchNotice { kind: Notice::MovedFrom(_), .. }))
        };
        while notices.len() < MOST_AT_ONCE || is_cut(&notices) {
            if read(&self.queue, &mut notices).is_err() {
                break;
            }
        }
        let looks =
            |notice: &WatchNotice| self.is_tree && notice.is_dir || notice.kind == Notice::Overflow;
        let is_long = self.tree.is_unsettled() || notices.iter().any(looks);
        match is_long {
            true => blocking(|| self.translate_all(notices)),
            false => self.translate_all(notices),
        }
        Ok(())
    }

    fn translate_all(&mut self, notices: Vec<WatchNotice>) {
        let mut notices: VecDeque<_> = notices.into();
        while let Some(this) = notices.pop_front() {
            let second = notices.iter().take(LARGEST_GAP).position(|next| is_rename(&this, next));
            let second = second.and_then(|at| notices.remove(at));
            self.translate(this, second);
        }
        if self.tree.is_unsettled() {
            self.tree.settle(self.queue.as_fd(), &mut self.ready);
        }
    }

    fn translate(&mut self, notice: WatchNotice, second: Option<WatchNotice>) {
        match notice.kind {
            Notice::Overflow => self.lost(),
            Notice::Unwatched => self.tree.ended(notice.watch),
            Notice::MovedItself if self.tree.is_root(notice.watch) => {
                self.tree.root_moved(self.queue.as_fd(), &mut self.ready);
            }
            Notice::MovedItself => {}
            // The notice is about the folder itself; its parent reports the same.
            _ if notice.name.is_empty() && !self.tree.is_root(notice.watch) => {}
            Notice::Created | Notice::MovedTo(_) => self.arrived(&notice),
            Notice::Deleted => self.left(&notice),
            Notice::MovedFrom(_) => self.moved(&notice, second.as_ref()),
            Notice::Modified => self.report_of(&notice, ChangeKind::Modified),
            Notice::Written => self.report_of(&notice, ChangeKind::Written),
            Notice::Attributes => {
                self.report_of(&notice, ChangeKind::Attributes);
                if notice.name.is_empty() {
                    self.tree.links_changed(notice.watch);
                }
            }
        }
    }

    /// Returns the path that a notice is about; None if its folder has left the tree.
    fn path_of(&self, notice: &WatchNotice) -> Option<PathBuf> {
        let mut path = self.tree.path(notice.watch)?;
        if !notice.name.is_empty() {
            path.push(&notice.name);
        }
        Some(path)
    }

    fn lost(&mut self) {
        let root = self.tree.root_path().to_owned();
        self.tree.retake(self.queue.as_fd(), self.is_tree, &mut self.ready);
        self.report(root, ChangeKind::Lost, true);
    }

    fn arrived(&mut self, notice: &WatchNotice) {
        self.report_of(notice, ChangeKind::Created);
        if self.is_tree && notice.is_dir {
            let queue = self.queue.as_fd();
            self.tree.arrived(queue, notice.watch, &notice.name, &mut self.ready);
        }
    }

    fn left(&mut self, notice: &WatchNotice) {
        self.report_of(notice, ChangeKind::Removed);
        if notice.is_dir {
            self.tree.links_changed(notice.watch);
        }
        self.look_at(notice);
    }

    fn moved(&mut self, from: &WatchNotice, to: Option<&WatchNotice>) {
        let Some(to) = to else { return self.left(from) };
        match (self.path_of(from), self.path_of(to)) {
            (Some(from_path), Some(to_path)) => {
                self.report(to_path, ChangeKind::Renamed { from: from_path }, to.is_dir);
                self.look_at(from);
                self.look_at(to);
            }
            // One of the two folders has left the tree, or is about to.
            _ => {
                self.left(from);
                self.arrived(to);
            }
        }
    }

    /// Looks up which folder now has the name in a notice.
    fn look_at(&mut self, notice: &WatchNotice) {
        if self.is_tree && notice.is_dir && !notice.name.is_empty() {
            let queue = self.queue.as_fd();
            self.tree.look_at(queue, notice.watch, &notice.name, &mut self.ready);
        }
    }

    fn report_of(&mut self, notice: &WatchNotice, kind: ChangeKind) {
        if let Some(path) = self.path_of(notice) {
            self.report(path, kind, notice.is_dir);
        }
    }

    fn report(&mut self, path: PathBuf, kind: ChangeKind, is_dir: bool) {
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
            if self.tree.is_empty() || !self.steps.go_on_or_pause() {
                return None;
            }
            let collected = self.collect();
            if let Err(error) = self.steps.noted(collected) {
                return Some(Err(error));
            }
        }
    }
}

fn read(queue: &OwnedFd, notices: &mut Vec<WatchNotice>) -> io::Result<()> {
    sys::inotify_read(queue, |watch, notice, is_dir, name| {
        notices.push(WatchNotice { watch, kind: notice, is_dir, name: name.to_owned() });
    })
}

fn is_rename(from: &WatchNotice, to: &WatchNotice) -> bool {
    match (from.kind, to.kind) {
        (Notice::MovedFrom(from), Notice::MovedTo(to)) => from == to,
        _ => false,
    }
}

/// Adds the path, and a remedy, to an error.
fn at(path: &Path, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "; raise the sysctl fs.inotify.max_user_watches",
        _ => "",
    };
    io::Error::new(error.kind(), format!("watching {}: {error}{hint}", path.display()))
}
