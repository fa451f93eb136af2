//! The folders of a watched tree as far as they are known: names and parents, by the kernel's
//! numbers. Nothing here looks at the file system.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// A number that the kernel has given to a watched file or folder.
pub(super) type Number = i32;

/// The watched folders; empty when the root is gone.
#[derive(Debug)]
pub(super) struct Folders {
    root: Number,
    known: HashMap<Number, Folder>,
    /// The folders whose entries may differ from those that are known.
    pub(super) doubtful: BTreeSet<Number>,
    /// The folders that have left their parent.
    adrift: BTreeSet<Number>,
}

#[derive(Debug, Default)]
pub(super) struct Folder {
    /// None if this is the root, or adrift.
    parent: Option<Number>,
    name: OsString,
    pub(super) folders: HashMap<OsString, Number>,
    /// Whether its entries were listed since it came into the tree.
    pub(super) is_listed: bool,
}

impl Folders {
    pub(super) fn new(root: Number) -> Folders {
        Folders {
            root,
            known: HashMap::from([(root, Folder::default())]),
            doubtful: BTreeSet::new(),
            adrift: BTreeSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.doubtful.is_empty() && self.adrift.is_empty()
    }

    /// Whether the path of a known folder is unknown or may be wrong, because a folder on it is
    /// adrift, or a folder above is doubtful.
    pub(super) fn is_uncertain(&self, number: Number) -> bool {
        if self.is_settled() || !self.contains(number) {
            return false;
        }
        let parent = |at: &Number| self.known.get(at).and_then(|folder| folder.parent);
        let above = || std::iter::successors(parent(&number), parent);
        !self.is_below(number, self.root) || above().any(|at| self.doubtful.contains(&at))
    }

    pub(super) fn contains(&self, number: Number) -> bool {
        self.known.contains_key(&number)
    }

    pub(super) fn get_mut(&mut self, number: Number) -> Option<&mut Folder> {
        self.known.get_mut(&number)
    }

    pub(super) fn is_listed(&self, number: Number) -> bool {
        self.known.get(&number).is_some_and(|folder| folder.is_listed)
    }

    /// Appends the names that lead from the root to a folder; None if it is adrift, or not watched.
    pub(super) fn path_below(&self, root: &Path, number: Number) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = number;
        while at != self.root {
            let folder = self.known.get(&at)?;
            names.push(&folder.name);
            at = folder.parent?;
        }
        self.known.get(&at)?;
        let mut path = root.to_owned();
        path.extend(names.into_iter().rev());
        Some(path)
    }

    /// Forgets a folder whose watch has ended. Without its root, the tree is empty.
    pub(super) fn ended(&mut self, number: Number) {
        if number == self.root {
            self.clear();
        }
        self.detach(number);
        self.doubtful.remove(&number);
        self.adrift.remove(&number);
        if let Some(folder) = self.known.remove(&number) {
            folder.folders.into_values().for_each(|child| self.set_adrift(child));
        }
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.doubtful.clear();
        self.adrift.clear();
    }

    /// Records the parent and name of a folder; returns false if that contradicts what is known.
    pub(super) fn place(&mut self, parent: Number, name: &OsStr, number: Number) -> bool {
        if number == self.root {
            // The root is mounted below itself.
            return false;
        }
        if self.is_below(parent, number) {
            // A folder cannot be below itself, so one of the two has moved meanwhile.
            self.doubtful.insert(parent);
            self.doubtful.extend(self.known[&number].parent);
            return false;
        }
        if self.folder_at(parent, name) != Some(number) {
            self.vacate(parent, name);
            self.detach(number);
            let siblings = self.known.get_mut(&parent).map(|parent| &mut parent.folders);
            siblings.map(|siblings| siblings.insert(name.to_owned(), number));
        }
        self.adrift.remove(&number);
        let folder = self.known.entry(number).or_default();
        folder.parent = Some(parent);
        name.clone_into(&mut folder.name);
        true
    }

    fn folder_at(&self, parent: Number, name: &OsStr) -> Option<Number> {
        self.known.get(&parent)?.folders.get(name).copied()
    }

    fn is_below(&self, number: Number, above: Number) -> bool {
        let parent = |at: &Number| self.known.get(at).and_then(|folder| folder.parent);
        std::iter::successors(Some(number), parent).any(|at| at == above)
    }

    /// Records that no known folder has this name any more.
    pub(super) fn vacate(&mut self, parent: Number, name: &OsStr) {
        if let Some(number) = self.folder_at(parent, name) {
            self.detach(number);
            self.set_adrift(number);
        }
    }

    fn set_adrift(&mut self, number: Number) {
        if let Some(folder) = self.known.get_mut(&number) {
            folder.parent = None;
            self.adrift.insert(number);
        }
    }

    /// Takes a folder off its parent's list.
    fn detach(&mut self, number: Number) {
        let Some(folder) = self.known.get_mut(&number) else { return };
        let (parent, name) = (folder.parent.take(), folder.name.clone());
        if let Some(parent) = parent.and_then(|parent| self.known.get_mut(&parent)) {
            parent.folders.remove(&name);
        }
    }

    /// Marks a folder and those below it as not listed, so that their entries are reported once
    /// more.
    pub(super) fn forget_listings(&mut self, number: Number) {
        let mut numbers = vec![number];
        while let Some(folder) = numbers.pop().and_then(|at| self.known.get_mut(&at)) {
            folder.is_listed = false;
            numbers.extend(folder.folders.values());
        }
    }

    /// Marks all folders as not listed, also those that are adrift: one of them may be found again.
    pub(super) fn forget_all_listings(&mut self) {
        self.known.values_mut().for_each(|folder| folder.is_listed = false);
    }

    /// Forgets the folders that are adrift, with those below them, and returns their numbers.
    pub(super) fn take_adrift(&mut self) -> Vec<Number> {
        let mut left: Vec<_> = std::mem::take(&mut self.adrift).into_iter().collect();
        let mut forgotten = Vec::new();
        while let Some(number) = left.pop() {
            forgotten.push(number);
            self.doubtful.remove(&number);
            if let Some(folder) = self.known.remove(&number) {
                left.extend(folder.folders.into_values());
            }
        }
        forgotten
    }
}
