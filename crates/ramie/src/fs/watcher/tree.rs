//! The folders of a watched tree, by the kernel's numbers.
//!
//! # Protocol
//! The kernel gives a number to each watched folder (the folder itself, not its path) and gives the
//! same number when it is asked to watch the folder again. So a request to watch `FOLDER/NAME`
//! answers the question "which folder is there now?", and that answer, not the notice, decides
//! where a folder is ([`Tree::look_at`]). *The races to fear* are three:
//!
//! 1. Entries appear in a new folder before it is watched. Therefore a folder is first watched and
//!    then listed.
//! 2. A notice is old: its folder, or a folder above, has another name by now, and the path that
//!    the tree knows leads to nothing, or to another folder. Therefore a folder is opened by its
//!    path, its number is compared, and later calls use the open descriptor ([`Tree::open`]). If
//!    the numbers differ, the folder is *doubtful*: notices that change its path are still in the
//!    queue. Doubtful folders are listed again when all notices read so far are translated.
//! 3. A folder has left its parent, and it is not known yet whether it has another parent in the
//!    tree. The folder and all folders below it are *adrift* until all notices read so far are
//!    translated. A folder that is adrift then has left the tree, and its watch ends; if it comes
//!    back, it counts as new.
//!
//! *Why each path becomes right*: the place of a folder was right when the tree looked at it. Each
//! later move adds notices for the old and for the new parent, which are both watched, and each
//! notice makes the tree look again. If the tree cannot look, the parent becomes doubtful, and is
//! listed once the paths of all folders above it are right.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
};

use ramie_driver::sys::{self, Watched};

use super::{Change, ChangeKind};

const DESCRIPTORS: &str = "/proc/self/fd";

/// The number of rounds that [`Tree::settle`] makes without checking for new notices.
const PATIENCE: usize = 100;

/// The changes that the iterator will yield next.
pub(super) type ReadyChanges = VecDeque<io::Result<Change>>;

/// A number that the kernel has given to a watched file or folder.
type Number = i32;

/// The watched folders; empty when the root is gone.
#[derive(Debug)]
pub(super) struct Tree {
    root: Number,
    root_path: PathBuf,
    /// Whether /proc is mounted, so that an open folder has a path that no rename changes.
    has_proc: bool,
    folders: HashMap<Number, Folder>,
    /// The folders whose entries may differ from those that the tree knows.
    doubtful: BTreeSet<Number>,
    /// The folders that have left their parent.
    adrift: BTreeSet<Number>,
}

#[derive(Debug, Default)]
struct Folder {
    /// None if this is the root, or adrift.
    parent: Option<Number>,
    name: OsString,
    folders: HashMap<OsString, Number>,
    /// Whether its entries were listed since it came into the tree.
    is_listed: bool,
}

/// A folder's descriptor, and a path that leads to it even after a rename.
struct Open {
    _descriptor: fs::File,
    path: PathBuf,
}

/// Whether folders that are listed for the first time report their entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    Reported,
    Silent,
}

impl Tree {
    /// Watches one path, without the folders below it.
    pub(super) fn of_one(queue: BorrowedFd<'_>, path: PathBuf) -> io::Result<Tree> {
        let watched = sys::inotify_watch(queue, &path, Watched::Anything);
        let number = watched.map_err(|error| at(&path, &error))?;
        Ok(Tree::new(number, path))
    }

    /// Watches a folder and all folders below it.
    pub(super) fn of_all(queue: BorrowedFd<'_>, path: PathBuf) -> io::Result<Tree> {
        let watched = sys::inotify_watch(queue, &path, Watched::Folder);
        let number = watched.map_err(|error| at(&path, &error))?;
        let (mut tree, mut ready) = (Tree::new(number, path), ReadyChanges::new());
        tree.list_new(queue, number, Entries::Silent, &mut ready);
        match ready.into_iter().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(tree),
        }
    }

    fn new(root: Number, root_path: PathBuf) -> Tree {
        Tree {
            root,
            root_path,
            has_proc: Path::new(DESCRIPTORS).is_dir(),
            folders: HashMap::from([(root, Folder::default())]),
            doubtful: BTreeSet::new(),
            adrift: BTreeSet::new(),
        }
    }

    pub(super) fn root_path(&self) -> &Path {
        &self.root_path
    }

    pub(super) fn is_root(&self, number: Number) -> bool {
        number == self.root
    }

    /// Whether nothing is watched any more.
    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Whether [`settle`](Self::settle) has something to do.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.doubtful.is_empty() || !self.adrift.is_empty()
    }

    /// Returns the path of a watched folder; None if it is adrift, or not watched.
    pub(super) fn path(&self, number: Number) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = number;
        while at != self.root {
            let folder = self.folders.get(&at)?;
            names.push(&folder.name);
            at = folder.parent?;
        }
        self.folders.get(&at)?;
        let mut path = self.root_path.clone();
        path.extend(names.into_iter().rev());
        Some(path)
    }

    /// Handles the notice that the kernel has ended a watch.
    pub(super) fn ended(&mut self, number: Number) {
        if number == self.root {
            self.clear();
        }
        self.detach(number);
        self.doubtful.remove(&number);
        self.adrift.remove(&number);
        if let Some(folder) = self.folders.remove(&number) {
            folder.folders.into_values().for_each(|child| self.set_adrift(child));
        }
    }

    fn clear(&mut self) {
        self.folders.clear();
        self.doubtful.clear();
        self.adrift.clear();
    }

    /// Handles a reported notice about a new entry: if the entry is a folder, watches it and
    /// reports everything below it.
    pub(super) fn arrived(
        &mut self,
        queue: BorrowedFd<'_>,
        folder: Number,
        name: &OsStr,
        ready: &mut ReadyChanges,
    ) {
        let known = self.look_at(queue, folder, name, ready);
        if let Some(number) = known {
            self.forget_listings(number);
            self.list_new(queue, number, Entries::Reported, ready);
        }
    }

    /// Looks up which folder now has the name `name` in `folder`. If the tree knows the folder
    /// found, returns its number; otherwise adds it and reports everything below it.
    pub(super) fn look_at(
        &mut self,
        queue: BorrowedFd<'_>,
        folder: Number,
        name: &OsStr,
        ready: &mut ReadyChanges,
    ) -> Option<Number> {
        let open = match self.open(queue, folder) {
            Ok(open) => open?,
            Err(error) => {
                ready.push_back(Err(error));
                return None;
            }
        };
        let found = self.watch(queue, &open, folder, name);
        let number = found.unwrap_or_else(|error| {
            ready.push_back(Err(error));
            None
        })?;
        if self.folders[&number].is_listed {
            return Some(number);
        }
        self.list_new(queue, number, Entries::Reported, ready);
        None
    }

    /// Opens a folder by its path. If the path leads elsewhere, marks the folder as doubtful.
    fn open(&mut self, queue: BorrowedFd<'_>, number: Number) -> io::Result<Option<Open>> {
        let Some(path) = self.path(number) else {
            if self.folders.contains_key(&number) {
                self.doubtful.insert(number);
            }
            return Ok(None);
        };
        let opened = open_folder(&path, self.is_root(number)).and_then(|descriptor| {
            let of_its_own = match self.has_proc {
                true => Path::new(DESCRIPTORS).join(descriptor.as_raw_fd().to_string()),
                false => path.clone(),
            };
            // Without the flag that forbids links, because this path is a link of /proc to the
            // folder.
            let found = sys::inotify_watch(queue, &of_its_own, Watched::Anything)?;
            Ok((Open { _descriptor: descriptor, path: of_its_own }, found))
        });
        match opened {
            Ok((open, found)) if found == number => return Ok(Some(open)),
            Ok((_, stranger)) if !self.folders.contains_key(&stranger) => {
                // It will be watched when it is found by its own path.
                let _ = sys::inotify_unwatch(queue, stranger);
            }
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(at(&path, &error)),
        }
        self.doubtful.insert(number);
        Ok(None)
    }

    /// Watches the entry `name` of an open folder; returns its number if the entry is a folder.
    fn watch(
        &mut self,
        queue: BorrowedFd<'_>,
        open: &Open,
        folder: Number,
        name: &OsStr,
    ) -> io::Result<Option<Number>> {
        match sys::inotify_watch(queue, &open.path.join(name), Watched::FolderItself) {
            Ok(number) => Ok(self.place(folder, name, number).then_some(number)),
            Err(error) => {
                self.vacate(folder, name);
                match is_gone(&error) {
                    true => Ok(None),
                    false => {
                        let path = self.path(folder).unwrap_or_default().join(name);
                        Err(at(&path, &error))
                    }
                }
            }
        }
    }

    /// Records the parent and name of a folder; returns false if the tree contradicts them.
    fn place(&mut self, parent: Number, name: &OsStr, number: Number) -> bool {
        if number == self.root {
            // The root is mounted below itself.
            return false;
        }
        if self.is_below(parent, number) {
            // A folder cannot be below itself, so one of the two has moved meanwhile.
            self.doubtful.insert(parent);
            self.doubtful.extend(self.folders[&number].parent);
            return false;
        }
        if self.folder_at(parent, name) != Some(number) {
            self.vacate(parent, name);
            self.detach(number);
            let siblings = self.folders.get_mut(&parent).map(|parent| &mut parent.folders);
            siblings.map(|siblings| siblings.insert(name.to_owned(), number));
        }
        self.adrift.remove(&number);
        let folder = self.folders.entry(number).or_default();
        folder.parent = Some(parent);
        name.clone_into(&mut folder.name);
        true
    }

    fn folder_at(&self, parent: Number, name: &OsStr) -> Option<Number> {
        self.folders.get(&parent)?.folders.get(name).copied()
    }

    fn is_below(&self, number: Number, above: Number) -> bool {
        let parent = |at: &Number| self.folders.get(at).and_then(|folder| folder.parent);
        std::iter::successors(Some(number), parent).any(|at| at == above)
    }

    /// Records that no known folder has this name any more.
    fn vacate(&mut self, parent: Number, name: &OsStr) {
        if let Some(number) = self.folder_at(parent, name) {
            self.detach(number);
            self.set_adrift(number);
        }
    }

    fn set_adrift(&mut self, number: Number) {
        if let Some(folder) = self.folders.get_mut(&number) {
            folder.parent = None;
            self.adrift.insert(number);
        }
    }

    /// Takes a folder off its parent's list.
    fn detach(&mut self, number: Number) {
        let Some(folder) = self.folders.get_mut(&number) else { return };
        let (parent, name) = (folder.parent.take(), folder.name.clone());
        if let Some(parent) = parent.and_then(|parent| self.folders.get_mut(&parent)) {
            parent.folders.remove(&name);
        }
    }

    /// Marks a folder and those below it as not listed, so that their entries are reported once
    /// more.
    fn forget_listings(&mut self, number: Number) {
        let mut numbers = vec![number];
        while let Some(folder) = numbers.pop().and_then(|at| self.folders.get_mut(&at)) {
            folder.is_listed = false;
            numbers.extend(folder.folders.values());
        }
    }

    /// Lists a folder, and all folders below it that were not listed yet.
    fn list_new(
        &mut self,
        queue: BorrowedFd<'_>,
        from: Number,
        entries: Entries,
        ready: &mut ReadyChanges,
    ) {
        let mut numbers = vec![from];
        while let Some(number) = numbers.pop() {
            if let Err(error) = self.list(queue, number, entries, &mut numbers, ready) {
                ready.push_back(Err(error));
            }
        }
    }

    /// Compares a folder's entries with the known ones, and adds folders that must be listed, too,
    /// to `next`. If the folder cannot be found now, marks it as doubtful.
    fn list(
        &mut self,
        queue: BorrowedFd<'_>,
        number: Number,
        entries: Entries,
        next: &mut Vec<Number>,
        ready: &mut ReadyChanges,
    ) -> io::Result<()> {
        let Some(open) = self.open(queue, number)? else { return Ok(()) };
        let Some(path) = self.path(number) else { return Ok(()) };
        let Some(folder) = self.folders.get_mut(&number) else { return Ok(()) };
        let reports = entries == Entries::Reported && !folder.is_listed;
        folder.is_listed = true;
        let mut missing = folder.folders.clone();
        for entry in fs::read_dir(&open.path).map_err(|error| at(&path, &error))? {
            let entry = entry.map_err(|error| at(&path, &error))?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name();
            if reports {
                let change = Change { path: path.join(&name), kind: ChangeKind::Created, is_dir };
                ready.push_back(Ok(change));
            }
            if !is_dir {
                continue;
            }
            missing.remove(&name);
            match self.watch(queue, &open, number, &name) {
                Ok(Some(below)) if !self.folders[&below].is_listed => next.push(below),
                Ok(_) => {}
                Err(error) => ready.push_back(Err(error)),
            }
        }
        missing.keys().for_each(|name| self.vacate(number, name));
        Ok(())
    }

    /// Lists doubtful folders, and ends the watches of folders that have left the tree. Repeats
    /// while each round settles at least one folder. If the tree keeps changing, the remaining
    /// folders wait for the notices of these changes.
    pub(super) fn settle(&mut self, queue: BorrowedFd<'_>, ready: &mut ReadyChanges) {
        for round in 1.. {
            let doubtful = std::mem::take(&mut self.doubtful);
            for &number in &doubtful {
                self.list_new(queue, number, Entries::Reported, ready);
            }
            let is_stuck = doubtful.is_subset(&self.doubtful);
            if is_stuck || round >= PATIENCE && has_notices(queue) {
                break;
            }
        }
        self.end_adrift(queue);
    }

    fn end_adrift(&mut self, queue: BorrowedFd<'_>) {
        let mut left: Vec<_> = std::mem::take(&mut self.adrift).into_iter().collect();
        while let Some(number) = left.pop() {
            // Fails if the watch has ended already.
            let _ = sys::inotify_unwatch(queue, number);
            self.doubtful.remove(&number);
            if let Some(folder) = self.folders.remove(&number) {
                left.extend(folder.folders.into_values());
            }
        }
    }

    /// Lists all folders again, after the kernel has lost notices. If the root is gone, the tree
    /// becomes empty.
    pub(super) fn retake(
        &mut self,
        queue: BorrowedFd<'_>,
        is_tree: bool,
        ready: &mut ReadyChanges,
    ) {
        let watched = if is_tree { Watched::Folder } else { Watched::Anything };
        let is_there = match sys::inotify_watch(queue, &self.root_path, watched) {
            Ok(number) => number == self.root,
            Err(_) => false,
        };
        if !is_there {
            return self.clear();
        }
        if is_tree {
            self.forget_listings(self.root);
            self.list_new(queue, self.root, Entries::Silent, ready);
            self.settle(queue, ready);
        }
    }
}

/// Opens a folder; only the path of the root may be a symbolic link.
fn open_folder(path: &Path, is_root: bool) -> io::Result<fs::File> {
    let flags = libc::O_DIRECTORY | if is_root { 0 } else { libc::O_NOFOLLOW };
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn has_notices(queue: BorrowedFd<'_>) -> bool {
    sys::poll_now(queue, sys::POLL_IN).is_ok_and(|events| events & sys::POLL_IN != 0)
}

/// Whether the error means that a folder has moved meanwhile, or is no folder.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "; raise the sysctl fs.inotify.max_user_watches",
        _ => "",
    };
    io::Error::new(error.kind(), format!("watching {}: {error}{hint}", path.display()))
}
