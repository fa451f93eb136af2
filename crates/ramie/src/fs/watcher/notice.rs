//! The notices of the kernel, and the changes that they report.

use std::{collections::VecDeque, ffi::OsString, io, os::fd::OwnedFd, path::PathBuf};

use ramie_driver::sys::{self, Notice};

use super::{Change, ChangeKind, tree::Tree};

/// The most notices that are read before they are turned into changes.
const MOST_AT_ONCE: usize = 4096;
/// The number of notices after the first half of a rename among which the second half is searched.
/// The second half follows directly, unless other CPUs add notices in between.
const LARGEST_GAP: usize = 64;

/// One notice of the kernel.
#[derive(Debug)]
pub(super) struct WatchNotice {
    pub(super) watch: i32,
    pub(super) kind: Notice,
    pub(super) is_dir: bool,
    pub(super) name: OsString,
}

/// A notice, or both notices of a rename.
#[derive(Debug)]
pub(super) struct Noticed {
    pub(super) first: WatchNotice,
    pub(super) second: Option<WatchNotice>,
}

impl WatchNotice {
    /// Returns the path that the notice is about; None if its folder is not in the tree, or adrift.
    fn path(&self, tree: &Tree) -> Option<PathBuf> {
        let mut path = tree.path(self.watch)?;
        if !self.name.is_empty() {
            path.push(&self.name);
        }
        Some(path)
    }

    fn change_kind(&self) -> Option<ChangeKind> {
        match self.kind {
            Notice::Created | Notice::MovedTo(_) => Some(ChangeKind::Created),
            Notice::Modified => Some(ChangeKind::Modified),
            Notice::Written => Some(ChangeKind::Written),
            Notice::Attributes => Some(ChangeKind::Attributes),
            Notice::Deleted | Notice::MovedFrom(_) => Some(ChangeKind::Removed),
            Notice::MovedItself | Notice::Unwatched | Notice::Overflow => None,
        }
    }

    fn change(&self, tree: &Tree) -> Option<Change> {
        Some(Change { path: self.path(tree)?, kind: self.change_kind()?, is_dir: self.is_dir })
    }
}

impl Noticed {
    /// Takes the oldest notice, and the second half if it is the first half of a rename.
    pub(super) fn take(notices: &mut VecDeque<WatchNotice>) -> Option<Noticed> {
        let first = notices.pop_front()?;
        let second = notices.iter().take(LARGEST_GAP).position(|next| is_rename(&first, next));
        let second = second.and_then(|at| notices.remove(at));
        Some(Noticed { first, second })
    }

    /// Whether a path of the change is unknown, or may be wrong.
    pub(super) fn is_uncertain(&self, tree: &Tree) -> bool {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .any(|notice| tree.is_uncertain(notice.watch))
    }

    /// Returns the change, of which a part may be outside the tree.
    pub(super) fn change(&self, tree: &Tree) -> Option<Change> {
        let Some(second) = &self.second else { return self.first.change(tree) };
        match (self.first.path(tree), second.path(tree)) {
            (Some(from), Some(path)) => {
                Some(Change { path, kind: ChangeKind::Renamed { from }, is_dir: second.is_dir })
            }
            _ => self.first.change(tree).or_else(|| second.change(tree)),
        }
    }
}

fn is_rename(from: &WatchNotice, to: &WatchNotice) -> bool {
    match (from.kind, to.kind) {
        (Notice::MovedFrom(from), Notice::MovedTo(to)) => from == to,
        _ => false,
    }
}

/// Reads some hundred notices.
///
/// # Errors
/// `WouldBlock`: there is none.
pub(super) fn read(queue: &OwnedFd, notices: &mut VecDeque<WatchNotice>) -> io::Result<()> {
    sys::inotify_read(queue, |watch, kind, is_dir, name| {
        notices.push_back(WatchNotice { watch, kind, is_dir, name: name.to_owned() });
    })
}

/// Reads the notices that are there now, as far as they are not too many at once.
pub(super) fn read_more(queue: &OwnedFd, notices: &mut VecDeque<WatchNotice>) {
    let is_cut = |notices: &VecDeque<WatchNotice>| {
        // The second half of a rename may be left in the kernel's queue.
        matches!(notices.back(), Some(WatchNotice { kind: Notice::MovedFrom(_), .. }))
    };
    while notices.len() < MOST_AT_ONCE || is_cut(notices) {
        if read(queue, notices).is_err() {
            break;
        }
    }
}
