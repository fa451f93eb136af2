//! Watching files and whole trees for changes, by inotify.
//!
//! The kernel watches single folders and names each by a number in its notices. Here notices become
//! changes; [`tree`] knows which number stands for which folder.

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

static NOTICES: WaitKind = WaitKind::new("a descriptor to become readable");

/// The most notices that are read before they are turned into changes.
const MOST_AT_ONCE: usize = 4096;
/// In how many notices behind the first half of a rename the second is looked for. It follows at
/// once, unless other CPUs add notices just then.
const LARGEST_GAP: usize = 64;

/// A change of a watched file, or below a watched folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The changed path: the watched path, and for an entry its name behind that.
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
    /// It was made here, or moved here from a folder that is not watched.
    Created,
    /// Its content has changed, and its writer may continue.
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
    /// Changes were lost, because there were more than the kernel keeps
    /// (`fs.inotify.max_queued_events`), so scan the files again. The path is the watched one. All
    /// folders of a tree were scanned again before this report, so later changes are reported, with
    /// correct paths.
    Lost,
}

/// An iterator over the changes of a file, of a folder's entries, or of a whole tree.
///
/// Outside a cancelled scope it never ends while the watched file or folder exists. A watched
/// folder that is renamed itself, or moved, is still reported by the path that it had.
///
/// A change in a tree names the path that its folder has when the change is read. A folder that was
/// renamed, or moved into the tree, is watched with all that is below it. Entries that were in a
/// new folder before it was watched are reported as `Created`, perhaps twice.
///
/// # Blocking
/// Each step parks the fiber, or the thread outside one, until something changes.
///
/// # Cancellation
/// Each step is a cancel point, and loses no change. In a cancelled scope one step yields the
/// error, and the next one is `None`, so that a loop which continues after errors ends. Outside the
/// scope the iteration continues.
///
/// # Errors
/// Of a step: a new folder cannot be watched (`ENOSPC`: raise the sysctl
/// `fs.inotify.max_user_watches`; `PermissionDenied`). Its path is in the error; the other folders
/// are still watched.
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

/// One notice, with its borrows.
struct Told {
    watch: i32,
    notice: Notice,
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
    /// Those of opening the path. `EMFILE`, `ENOSPC`: beyond the limits of inotify(7), whose
    /// sysctls are in its manual.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Watcher> {
        Self::start(path.as_ref(), false)
    }

    /// Watches a folder and all folders below it, including folders made later. If the path is a
    /// symbolic link, the folder that it leads to now is watched; links below are not followed.
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
        let queue = sys::inotify()?;
        let tree = blocking(|| {
            let (queue, root) = (queue.as_fd(), root.to_owned());
            if is_tree { Tree::of_all(queue, root) } else { Tree::of_one(queue, root) }
        })?;
        Ok(Watcher { queue, tree, is_tree, ready: VecDeque::new(), steps: Steps::Going })
    }

    /// Waits for notices and makes changes of them.
    #[track_caller]
    fn collect(&mut self) -> io::Result<()> {
        let mut told = Vec::new();
        let queue = self.queue.as_fd();
        // inotify's descriptor is nonblocking.
        readiness::call_until_done(&NOTICES, queue, sys::POLL_IN, true, || {
            read(&self.queue, &mut told)
        })?;
        let is_cut = |told: &Vec<Told>| {
            // The second half of a rename may be left in the kernel's queue.
            matches!(told.last(), Some(Told { notice: Notice::MovedFrom(_), .. }))
        };
        while told.len() < MOST_AT_ONCE || is_cut(&told) {
            if read(&self.queue, &mut told).is_err() {
                break;
            }
        }
        let looks = |told: &Told| self.is_tree && told.is_dir || told.notice == Notice::Overflow;
        let is_long = self.tree.is_unsettled() || told.iter().any(looks);
        match is_long {
            true => blocking(|| self.translate_all(told)),
            false => self.translate_all(told),
        }
        Ok(())
    }

    fn translate_all(&mut self, told: Vec<Told>) {
        let mut told: VecDeque<_> = told.into();
        while let Some(this) = told.pop_front() {
            let second = told.iter().take(LARGEST_GAP).position(|next| is_rename(&this, next));
            let second = second.and_then(|at| told.remove(at));
            self.translate(this, second);
        }
        if self.tree.is_unsettled() {
            self.tree.settle(self.queue.as_fd(), &mut self.ready);
        }
    }

    fn translate(&mut self, told: Told, second: Option<Told>) {
        match told.notice {
            Notice::Overflow => self.lost(),
            Notice::Unwatched => self.tree.ended(told.watch),
            // The folder itself; its parent reports the same.
            _ if told.name.is_empty() && !self.tree.is_root(told.watch) => {}
            Notice::Created | Notice::MovedTo(_) => self.arrived(&told),
            Notice::Deleted => self.left(&told),
            Notice::MovedFrom(_) => self.moved(&told, second.as_ref()),
            Notice::Modified => self.tell_of(&told, ChangeKind::Modified),
            Notice::Written => self.tell_of(&told, ChangeKind::Written),
            Notice::Attributes => self.tell_of(&told, ChangeKind::Attributes),
        }
    }

    /// The path that a notice is about, unless its folder has left the tree.
    fn path_of(&self, told: &Told) -> Option<PathBuf> {
        let mut path = self.tree.path(told.watch)?;
        if !told.name.is_empty() {
            path.push(&told.name);
        }
        Some(path)
    }

    fn lost(&mut self) {
        let root = self.tree.root_path().to_owned();
        self.tree.retake(self.queue.as_fd(), self.is_tree, &mut self.ready);
        self.tell(root, ChangeKind::Lost, true);
    }

    fn arrived(&mut self, told: &Told) {
        self.tell_of(told, ChangeKind::Created);
        if self.is_tree && told.is_dir {
            let queue = self.queue.as_fd();
            self.tree.arrived(queue, told.watch, &told.name, &mut self.ready);
        }
    }

    fn left(&mut self, told: &Told) {
        self.tell_of(told, ChangeKind::Removed);
        self.look_at(told);
    }

    fn moved(&mut self, from: &Told, to: Option<&Told>) {
        let Some(to) = to else { return self.left(from) };
        match (self.path_of(from), self.path_of(to)) {
            (Some(from_path), Some(to_path)) => {
                self.tell(to_path, ChangeKind::Renamed { from: from_path }, to.is_dir);
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

    /// Looks up the present entry at the place of a notice about a folder.
    fn look_at(&mut self, told: &Told) {
        if self.is_tree && told.is_dir && !told.name.is_empty() {
            let queue = self.queue.as_fd();
            self.tree.look_at(queue, told.watch, &told.name, &mut self.ready);
        }
    }

    fn tell_of(&mut self, told: &Told, kind: ChangeKind) {
        if let Some(path) = self.path_of(told) {
            self.tell(path, kind, told.is_dir);
        }
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
