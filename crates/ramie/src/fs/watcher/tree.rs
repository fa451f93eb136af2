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
//!    path, which begins at the root's descriptor ([`Root`]), its number is compared, and later
//!    calls use the open descriptor ([`Tree::open`]). If the numbers differ, the folder is
//!    *doubtful*: notices that change its path are still in the queue. Doubtful folders are listed
//!    again when all notices read so far are translated.
//! 3. A folder has left its parent, and it is not known yet whether it has another parent in the
//!    tree. The folder and all folders below it are *adrift* until all notices read so far are
//!    translated, and the kernel has no more. A folder that is adrift then has left the tree, and
//!    its watch ends; if it comes back, it counts as new.
//!
//! *Why each path becomes right*: the place of a folder was right when the tree looked at it. Each
//! later move adds notices for the old and for the new parent, which are both watched, and each
//! notice makes the tree look again. If the tree cannot look, the parent becomes doubtful, and is
//! listed once the paths of all folders above it are right. Until then, the places of the folders
//! in it may be wrong, so changes below them wait ([`Tree::is_uncertain`]).

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs, io,
    os::{fd::BorrowedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use ramie_driver::sys::{self, Watched};

use super::{
    Change, ChangeKind, at,
    folders::{Folders, Number},
    root::Root,
};

/// The number of rounds that [`Tree::settle`] makes without checking for new notices.
const PATIENCE: usize = 100;

/// The changes that the iterator will yield next.
pub(super) type ReadyChanges = VecDeque<io::Result<Change>>;

/// The watched folders, and how they are found in the file system.
#[derive(Debug)]
pub(super) struct Tree {
    root: Root,
    folders: Folders,
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
        Root::of_one(queue, path).map(Tree::new)
    }

    /// Watches a folder and all folders below it.
    pub(super) fn of_all(queue: BorrowedFd<'_>, path: PathBuf) -> io::Result<Tree> {
        let mut tree = Tree::new(Root::of_tree(queue, path)?);
        let mut ready = ReadyChanges::new();
        tree.list_new(queue, tree.root.number(), Entries::Silent, &mut ready);
        match ready.into_iter().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(tree),
        }
    }

    fn new(root: Root) -> Tree {
        Tree { folders: Folders::new(root.number()), root }
    }

    pub(super) fn root_path(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn is_root(&self, number: Number) -> bool {
        number == self.root.number()
    }

    /// Whether nothing is watched any more.
    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Whether [`settle`](Self::settle) has something to do.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.folders.is_settled()
    }

    /// Whether the path of a watched folder is unknown or may be wrong until the tree is settled.
    pub(super) fn is_uncertain(&self, number: Number) -> bool {
        self.folders.is_uncertain(number)
    }

    /// Returns the path by which a watched folder is reported; None if it is adrift, or not
    /// watched.
    pub(super) fn path(&self, number: Number) -> Option<PathBuf> {
        self.folders.path_below(self.root.path(), number)
    }

    /// Handles the notice that the kernel has ended a watch.
    pub(super) fn ended(&mut self, number: Number) {
        self.folders.ended(number);
    }

    /// Handles the notice that the root has moved, perhaps to another folder.
    pub(super) fn root_moved(&mut self, queue: BorrowedFd<'_>, ready: &mut ReadyChanges) {
        match self.root.watch_above(queue) {
            Ok(Some(before)) if !self.folders.contains(before) => {
                // Fails if the watch has ended already.
                let _ = sys::inotify_unwatch(queue, before);
            }
            Ok(_) => {}
            Err(error) => ready.push_back(Err(error)),
        }
    }

    /// Handles a notice that `number` has lost a folder, or links.
    pub(super) fn links_changed(&mut self, number: Number) {
        if self.is_root(number) || self.root.is_above(number) {
            self.root.close_if_removed();
        }
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
            self.folders.forget_listings(number);
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
        if self.folders.is_listed(number) {
            return Some(number);
        }
        self.list_new(queue, number, Entries::Reported, ready);
        None
    }

    /// Opens a folder by its path. If the path leads elsewhere, marks the folder as doubtful.
    fn open(&mut self, queue: BorrowedFd<'_>, number: Number) -> io::Result<Option<Open>> {
        let Some(path) = self.folders.path_below(&self.root.place(), number) else {
            if self.folders.contains(number) {
                self.folders.doubtful.insert(number);
            }
            return Ok(None);
        };
        let opened = open_folder(&path, self.is_root(number)).and_then(|descriptor| {
            let own_path = self.root.own_path_of(&descriptor).unwrap_or_else(|| path.clone());
            // Without the flag that forbids links, because this path is a link of /proc to the
            // folder.
            let found = sys::inotify_watch(queue, &own_path, Watched::Anything)?;
            Ok((Open { _descriptor: descriptor, path: own_path }, found))
        });
        match opened {
            Ok((open, found)) if found == number => return Ok(Some(open)),
            Ok((_, stranger)) => {
                // It will be watched when it is found by its own path.
                if !self.folders.contains(stranger) && !self.root.is_above(stranger) {
                    let _ = sys::inotify_unwatch(queue, stranger);
                }
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(at(&self.path(number).unwrap_or(path), &error)),
        }
        self.folders.doubtful.insert(number);
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
            Ok(number) => Ok(self.folders.place(folder, name, number).then_some(number)),
            Err(error) => {
                self.folders.vacate(folder, name);
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
        let Some(folder) = self.folders.get_mut(number) else { return Ok(()) };
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
                Ok(Some(below)) if !self.folders.is_listed(below) => next.push(below),
                Ok(_) => {}
                Err(error) => ready.push_back(Err(error)),
            }
        }
        missing.keys().for_each(|name| self.folders.vacate(number, name));
        Ok(())
    }

    /// Lists doubtful folders. Repeats while each round settles at least one folder. If the tree
    /// keeps changing, the remaining folders wait for the notices of these changes.
    pub(super) fn settle(&mut self, queue: BorrowedFd<'_>, ready: &mut ReadyChanges) {
        for round in 1.. {
            let doubtful = std::mem::take(&mut self.folders.doubtful);
            for &number in &doubtful {
                self.list_new(queue, number, Entries::Reported, ready);
            }
            let is_stuck = doubtful.is_subset(&self.folders.doubtful);
            if is_stuck || round >= PATIENCE && has_notices(queue) {
                break;
            }
        }
    }

    /// Ends the watches of the folders that are adrift, because they have left the tree.
    pub(super) fn end_adrift(&mut self, queue: BorrowedFd<'_>) {
        for number in self.folders.take_adrift() {
            // The root may lie in it by now. Otherwise it fails if the watch has ended already.
            if !self.root.is_above(number) {
                let _ = sys::inotify_unwatch(queue, number);
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
        // The notice of a move of the root, or of its end, may be lost.
        self.root_moved(queue, ready);
        let watched = if is_tree { Watched::Folder } else { Watched::Anything };
        if !self.root.is_there(queue, watched) {
            return self.folders.clear();
        }
        if is_tree {
            self.folders.forget_all_listings();
            self.list_new(queue, self.root.number(), Entries::Silent, ready);
            self.settle(queue, ready);
            self.end_adrift(queue);
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
