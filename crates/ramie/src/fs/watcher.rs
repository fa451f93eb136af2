//! Watching files and whole trees for changes, by inotify.
//!
//! The kernel watches single folders and names each by a number in its notices. This module turns
//! notices into changes; [`notice`] holds both, [`folders`] records which number stands for which
//! folder, [`tree`] finds the folders in the file system, and [`root`] is where each of their paths
//! begins.
//!
//! The path of a folder is unknown while the folder is adrift, and may be wrong below a doubtful
//! folder (see [`tree`]). A change in it is *held* until the folders have settled, and is then
//! reported before the changes of later notices.

mod folders;
mod notice;
mod root;
mod tree;

use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use ramie_driver::sys::{self, Notice};

use self::{
    notice::{Noticed, WatchNotice},
    tree::{ReadyChanges, Tree},
};
use crate::{
    core::{cancel::Steps, wait::park::WaitKind},
    op::{blocking, readiness},
};

static NOTICES: WaitKind = WaitKind::of_op("a descriptor to become readable");

/// The number of times that more notices are read because the tree is not settled.
const MOST_REREADS: usize = 16;

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
    /// Empty between two steps.
    held: Vec<HeldChange>,
    steps: Steps,
}

/// A change that waits until it is known where its folder is.
#[derive(Debug)]
struct HeldChange {
    noticed: Noticed,
    /// The number of ready changes that are reported before it.
    before: usize,
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
        let (ready, held) = (VecDeque::new(), Vec::new());
        Ok(Watcher { queue, tree, is_tree, ready, held, steps: Steps::Going })
    }

    /// Waits for notices and translates them to changes.
    #[track_caller]
    fn collect(&mut self) -> io::Result<()> {
        let mut notices = VecDeque::new();
        let queue = self.queue.as_fd();
        // inotify's descriptor is nonblocking.
        readiness::call_until_done(&NOTICES, queue, sys::POLL_IN, true, || {
            notice::read(&self.queue, &mut notices)
        })?;
        notice::read_more(&self.queue, &mut notices);
        let looks =
            |notice: &WatchNotice| self.is_tree && notice.is_dir || notice.kind == Notice::Overflow;
        let is_long = self.tree.is_unsettled() || notices.iter().any(looks);
        match is_long {
            true => blocking(|| self.translate_all(notices)),
            false => self.translate_all(notices),
        }
        Ok(())
    }

    fn translate_all(&mut self, mut notices: VecDeque<WatchNotice>) {
        for _ in 0..=MOST_REREADS {
            while let Some(noticed) = Noticed::take(&mut notices) {
                self.translate(noticed);
            }
            if !self.tree.is_unsettled() {
                break;
            }
            self.tree.settle(self.queue.as_fd(), &mut self.ready);
            if self.tree.is_unsettled() {
                // The notices that lead to these folders may have come meanwhile.
                notice::read_more(&self.queue, &mut notices);
            }
            if notices.is_empty() {
                break;
            }
        }
        self.report_held();
        self.tree.end_adrift(self.queue.as_fd());
    }

    fn translate(&mut self, noticed: Noticed) {
        let WatchNotice { watch, kind, ref name, .. } = noticed.first;
        match kind {
            Notice::Overflow => self.lost(),
            Notice::Unwatched => self.tree.ended(watch),
            Notice::MovedItself if self.tree.is_root(watch) => {
                self.tree.root_moved(self.queue.as_fd(), &mut self.ready);
            }
            Notice::MovedItself => {}
            // The notice is about the folder itself; its parent reports the same.
            _ if name.is_empty() && !self.tree.is_root(watch) => {}
            _ => self.changed(noticed),
        }
    }

    fn lost(&mut self) {
        let path = self.tree.root_path().to_owned();
        self.tree.retake(self.queue.as_fd(), self.is_tree, &mut self.ready);
        self.ready.push_back(Ok(Change { path, kind: ChangeKind::Lost, is_dir: true }));
    }

    /// Reports or holds a change, and looks up the folders that it concerns.
    fn changed(&mut self, noticed: Noticed) {
        let before = self.ready.len();
        let change = noticed.change(&self.tree);
        if noticed.is_uncertain(&self.tree) {
            self.look(&noticed, change.as_ref());
            self.held.push(HeldChange { noticed, before });
        } else {
            self.ready.extend(change.clone().map(Ok));
            self.look(&noticed, change.as_ref());
        }
    }

    fn look(&mut self, noticed: &Noticed, change: Option<&Change>) {
        let first = &noticed.first;
        match (first.kind, &noticed.second) {
            (Notice::MovedFrom(_), Some(second)) => {
                if matches!(change, Some(Change { kind: ChangeKind::Renamed { .. }, .. })) {
                    self.look_at(first);
                    self.look_at(second);
                } else {
                    // One of the two folders has left the tree, or is about to.
                    self.left(first);
                    self.arrived(second);
                }
            }
            (Notice::MovedFrom(_) | Notice::Deleted, _) => self.left(first),
            (Notice::Created | Notice::MovedTo(_), _) => self.arrived(first),
            (Notice::Attributes, _) if first.name.is_empty() => {
                self.tree.links_changed(first.watch);
            }
            _ => {}
        }
    }

    fn arrived(&mut self, notice: &WatchNotice) {
        if self.is_tree && notice.is_dir {
            let queue = self.queue.as_fd();
            self.tree.arrived(queue, notice.watch, &notice.name, &mut self.ready);
        }
    }

    fn left(&mut self, notice: &WatchNotice) {
        if notice.is_dir {
            self.tree.links_changed(notice.watch);
        }
        self.look_at(notice);
    }

    /// Looks up which folder now has the name in a notice.
    fn look_at(&mut self, notice: &WatchNotice) {
        if self.is_tree && notice.is_dir && !notice.name.is_empty() {
            let queue = self.queue.as_fd();
            self.tree.look_at(queue, notice.watch, &notice.name, &mut self.ready);
        }
    }

    /// Puts the held changes in their places among the others. A folder that is still adrift has
    /// left the tree.
    fn report_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut others = mem::take(&mut self.ready);
        let count = others.len();
        for HeldChange { noticed, before } in mem::take(&mut self.held) {
            let passed = count - others.len();
            self.ready.extend(others.drain(..before - passed));
            let change = noticed.change(&self.tree);
            let is_new = matches!(change, Some(Change { kind: ChangeKind::Created, .. }));
            self.ready.extend(change.map(Ok));
            if let (true, Some(second)) = (is_new, &noticed.second) {
                // Its old place has left the tree, so all entries in it are new, too.
                self.arrived(second);
            }
        }
        self.ready.append(&mut others);
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

/// Adds the path, and a remedy, to an error.
fn at(path: &Path, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "; raise the sysctl fs.inotify.max_user_watches",
        _ => "",
    };
    io::Error::new(error.kind(), format!("watching {}: {error}{hint}", path.display()))
}
