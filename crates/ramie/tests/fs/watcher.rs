//! Watching files, folders and trees.

use std::{
    fs as theirs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use crate::common::everywhere;
use ramie::{
    cancel::{self, is_cancelled, with_timeout},
    fiber,
    fs::{Change, ChangeKind, Watcher},
    ring::{self, CWD, RenameFlags},
};

/// A folder for one test, which is removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ramie-watch-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        theirs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = theirs::remove_dir_all(&self.0);
    }
}

/// Reads changes up to one of a given kind and path, which must come.
pub(crate) fn until(watcher: &mut Watcher, path: &Path, kind: &ChangeKind) -> Vec<Change> {
    let mut changes = Vec::new();
    let is_last = |change: &Change| change.path == path && change.kind == *kind;
    let limit = Duration::from_secs(30);
    let found = with_timeout(limit, || {
        while !changes.last().is_some_and(is_last) {
            changes.push(watcher.next().unwrap().unwrap());
        }
    });
    assert!(found.is_ok(), "no {kind:?} of {} in {changes:?}", path.display());
    changes
}

#[test]
fn the_root_of_a_tree_may_be_a_link() {
    everywhere(|| {
        let folder = Folder::new();
        let (real, link) = (folder.0.join("real"), folder.0.join("link"));
        theirs::create_dir_all(real.join("old")).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut watcher = Watcher::tree(&link).unwrap();
        theirs::write(real.join("old/one"), "text").unwrap();
        until(&mut watcher, &link.join("old/one"), &ChangeKind::Created);
        // New folders are found by the path of the root.
        theirs::create_dir(real.join("new")).unwrap();
        until(&mut watcher, &link.join("new"), &ChangeKind::Created);
        theirs::write(real.join("new/two"), "text").unwrap();
        until(&mut watcher, &link.join("new/two"), &ChangeKind::Written);
        theirs::rename(real.join("new"), real.join("old/moved")).unwrap();
        let renamed = ChangeKind::Renamed { from: link.join("new") };
        until(&mut watcher, &link.join("old/moved"), &renamed);
        theirs::write(real.join("old/moved/three"), "text").unwrap();
        until(&mut watcher, &link.join("old/moved/three"), &ChangeKind::Written);
        // Links below the root are not followed.
        std::os::unix::fs::symlink(&real, real.join("back")).unwrap();
        theirs::write(real.join("four"), "text").unwrap();
        let changes = until(&mut watcher, &link.join("four"), &ChangeKind::Written);
        assert!(!changes.iter().any(|change| change.path.starts_with(link.join("back/four"))));
    });
}

#[test]
fn the_changes_of_a_file_are_reported_in_order() {
    everywhere(|| {
        let folder = Folder::new();
        let mut watcher = Watcher::new(&folder.0).unwrap();
        let (one, two) = (folder.0.join("one"), folder.0.join("two"));
        theirs::write(&one, "text").unwrap();
        theirs::set_permissions(&one, theirs::metadata(&one).unwrap().permissions()).unwrap();
        theirs::rename(&one, &two).unwrap();
        theirs::remove_file(&two).unwrap();
        let changes = until(&mut watcher, &two, &ChangeKind::Removed);
        let kinds: Vec<_> = changes.iter().map(|change| &change.kind).collect();
        let renamed = ChangeKind::Renamed { from: one.clone() };
        assert_eq!(
            kinds,
            [
                &ChangeKind::Created,
                &ChangeKind::Modified,
                &ChangeKind::Written,
                &ChangeKind::Attributes,
                &renamed,
                &ChangeKind::Removed
            ]
        );
        assert!(changes[..4].iter().all(|change| change.path == one && !change.is_dir));
    });
}

#[test]
fn a_cancelled_wait_for_a_change_loses_no_change() {
    everywhere(|| {
        let folder = Folder::new();
        let file = folder.0.join("file");
        theirs::write(&file, "").unwrap();
        let mut watcher = Watcher::new(&file).unwrap();
        let late = with_timeout(Duration::from_millis(1), || watcher.next().unwrap().unwrap_err());
        assert!(is_cancelled(&late.unwrap_err().into_value()));
        fiber::scope(|s| {
            s.spawn(|| until(&mut watcher, &file, &ChangeKind::Modified));
            s.spawn(|| theirs::write(&file, "text").unwrap());
        });
        theirs::remove_file(&file).unwrap();
        until(&mut watcher, &file, &ChangeKind::Removed);
        assert!(watcher.next().is_none(), "what it watched is gone");
    });
}

#[test]
fn a_tree_is_watched_with_new_and_renamed_folders() {
    everywhere(|| {
        let folder = Folder::new();
        theirs::create_dir_all(folder.0.join("a/b")).unwrap();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        theirs::write(folder.0.join("a/b/deep"), "").unwrap();
        until(&mut watcher, &folder.0.join("a/b/deep"), &ChangeKind::Written);

        // Folders that get entries before and after they can be watched.
        theirs::create_dir_all(folder.0.join("new/er/est")).unwrap();
        theirs::write(folder.0.join("new/er/early"), "").unwrap();
        until(&mut watcher, &folder.0.join("new/er/early"), &ChangeKind::Created);
        theirs::write(folder.0.join("new/er/est/late"), "").unwrap();
        until(&mut watcher, &folder.0.join("new/er/est/late"), &ChangeKind::Created);

        theirs::rename(folder.0.join("a"), folder.0.join("c")).unwrap();
        let renamed = ChangeKind::Renamed { from: folder.0.join("a") };
        let changes = until(&mut watcher, &folder.0.join("c"), &renamed);
        assert!(changes.last().unwrap().is_dir);
        theirs::write(folder.0.join("c/b/deep"), "more").unwrap();
        until(&mut watcher, &folder.0.join("c/b/deep"), &ChangeKind::Written);

        // After a move to a folder that is not watched, its entries are no longer reported.
        let elsewhere = Folder::new();
        theirs::rename(folder.0.join("c"), elsewhere.0.join("c")).unwrap();
        until(&mut watcher, &folder.0.join("c"), &ChangeKind::Removed);
        theirs::write(elsewhere.0.join("c/b/deep"), "unseen").unwrap();
        theirs::write(folder.0.join("seen"), "").unwrap();
        let changes = until(&mut watcher, &folder.0.join("seen"), &ChangeKind::Created);
        assert_eq!(changes.len(), 1, "{changes:?}");
    });
}

/// A folder that has left is forgotten; entries that move from it into the tree are new.
#[test]
fn an_entry_moved_from_a_folder_outside_is_created() {
    everywhere(|| {
        let (folder, elsewhere) = (Folder::new(), Folder::new());
        theirs::create_dir(folder.0.join("a")).unwrap();
        theirs::write(folder.0.join("a/file"), "").unwrap();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        theirs::rename(folder.0.join("a"), elsewhere.0.join("a")).unwrap();
        theirs::rename(elsewhere.0.join("a/file"), folder.0.join("file")).unwrap();
        until(&mut watcher, &folder.0.join("a"), &ChangeKind::Removed);
        until(&mut watcher, &folder.0.join("file"), &ChangeKind::Created);
    });
}

#[test]
fn folders_that_swap_names_are_reported_by_their_new_paths() {
    everywhere(|| {
        let folder = Folder::new();
        let (a, b) = (folder.0.join("a"), folder.0.join("b"));
        theirs::create_dir_all(a.join("of-a")).unwrap();
        theirs::create_dir_all(b.join("of-b")).unwrap();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        ring::rename(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
        until(&mut watcher, &b, &ChangeKind::Renamed { from: a.clone() });
        until(&mut watcher, &a, &ChangeKind::Renamed { from: b.clone() });
        for file in [a.join("of-b/file"), b.join("of-a/file")] {
            theirs::write(&file, "").unwrap();
            until(&mut watcher, &file, &ChangeKind::Created);
        }
    });
}

/// The notice of the first rename is translated when the folder has its third name, so for a while
/// the watcher does not know where the folder is.
#[test]
fn changes_in_a_folder_that_is_renamed_twice_are_reported() {
    everywhere(|| {
        let folder = Folder::new();
        let at = |name: &str| folder.0.join(name);
        theirs::create_dir_all(at("first/deep")).unwrap();
        theirs::create_dir(at("other")).unwrap();
        theirs::write(at("first/old"), "").unwrap();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        theirs::rename(at("first"), at("second")).unwrap();
        theirs::write(at("second/new"), "text").unwrap();
        theirs::write(at("second/deep/new"), "text").unwrap();
        theirs::remove_file(at("second/old")).unwrap();
        theirs::rename(at("second/new"), at("other/new")).unwrap();
        theirs::rename(at("second"), at("third")).unwrap();
        for (path, kind) in [
            ("third/new", ChangeKind::Created),
            ("third/new", ChangeKind::Written),
            ("third/deep/new", ChangeKind::Created),
            ("third/old", ChangeKind::Removed),
            ("other/new", ChangeKind::Renamed { from: at("third/new") }),
            ("third", ChangeKind::Renamed { from: at("second") }),
        ] {
            until(&mut watcher, &at(path), &kind);
        }
    });
}

/// When the notice of the move is translated, both parents have other names already, so for a while
/// the watcher has the folder in its old place.
#[test]
fn changes_in_a_folder_whose_parents_are_renamed_after_its_move_are_reported() {
    everywhere(|| {
        let folder = Folder::new();
        let at = |name: &str| folder.0.join(name);
        theirs::create_dir_all(at("old/one")).unwrap();
        theirs::create_dir(at("new")).unwrap();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        theirs::rename(at("old/one"), at("new/two")).unwrap();
        theirs::rename(at("old"), at("older")).unwrap();
        theirs::rename(at("new"), at("newer")).unwrap();
        theirs::write(at("newer/two/file"), "").unwrap();
        until(&mut watcher, &at("newer/two/file"), &ChangeKind::Created);
    });
}

/// A folder is filled under a temporary name and then renamed, so that it appears complete.
#[test]
fn a_folder_that_is_renamed_before_it_was_seen_is_watched() {
    everywhere(|| {
        let folder = Folder::new();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        let (temporary, installed) = (folder.0.join(".temporary"), folder.0.join("installed"));
        theirs::create_dir_all(temporary.join("deep")).unwrap();
        theirs::write(temporary.join("deep/early"), "").unwrap();
        theirs::rename(&temporary, &installed).unwrap();
        until(&mut watcher, &installed, &ChangeKind::Renamed { from: temporary });
        until(&mut watcher, &installed.join("deep/early"), &ChangeKind::Created);
        theirs::write(installed.join("deep/late"), "").unwrap();
        until(&mut watcher, &installed.join("deep/late"), &ChangeKind::Created);
    });
}

#[test]
fn a_path_that_cannot_be_watched_is_named_in_the_error() {
    everywhere(|| {
        let folder = Folder::new();
        let file = folder.0.join("file");
        theirs::write(&file, "").unwrap();
        let error = Watcher::tree(&file).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        let error = Watcher::new(folder.0.join("missing")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(error.to_string().contains("missing"), "{error}");
    });
}

/// A `for` loop that continues after errors ends in a cancelled scope, and another one can continue
/// outside the scope.
#[test]
fn a_loop_over_changes_ends_in_a_cancelled_scope() {
    everywhere(|| {
        let folder = Folder::new();
        let mut watcher = Watcher::tree(&folder.0).unwrap();
        for round in 0..2 {
            cancel::scope(|scope| {
                scope.cancel();
                let steps: Vec<_> = watcher.by_ref().take(100).collect();
                assert_eq!(steps.len(), 1, "steps of round {round}");
                assert!(is_cancelled(steps[0].as_ref().unwrap_err()));
                assert!(watcher.next().is_none(), "it has begun again");
            });
            let path = folder.0.join(format!("new-{round}"));
            theirs::write(&path, "").unwrap();
            until(&mut watcher, &path, &ChangeKind::Written);
        }
    });
}
