//! Trees that change at random while they are watched: in the end all their folders are watched
//! under the right paths, and no others.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use crate::common;
use crate::common::{Random, one_worker};
use ramie::{
    cancel::with_timeout,
    fs::{ChangeKind, Watcher},
    ring::{self, CWD, RenameFlags},
};

/// A watched tree, and a folder beside it that is not watched.
struct Ground {
    whole: PathBuf,
    tree: PathBuf,
    outside: PathBuf,
}

impl Ground {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ramie-tree-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let whole = std::env::temp_dir().join(name);
        let (tree, outside) = (whole.join("tree"), whole.join("outside"));
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir(&outside).unwrap();
        Ground { whole, tree, outside }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.whole);
    }
}

/// Each entry of this kind below a folder.
fn below(folder: &Path, is_wanted: fn(&fs::FileType) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if is_wanted(&kind) {
                found.push(entry.path());
            }
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = below(root, fs::FileType::is_dir);
    folders.push(root.to_owned());
    folders
}

fn pick(random: &mut Random, paths: &[PathBuf]) -> PathBuf {
    paths[random.below(paths.len() as u64) as usize].clone()
}

/// Few names, so that changes conflict.
fn new_name(random: &mut Random, folder: &Path) -> PathBuf {
    folder.join(["a", "b", "c", "d", "e"][random.below(5) as usize])
}

/// Changes something in the tree, or moves something in or out; skips impossible changes.
fn change(random: &mut Random, ground: &Ground) {
    let (tree, outside) = (&ground.tree, &ground.outside);
    let in_tree = pick(random, &folders(tree));
    match random.below(12) {
        0..=2 => {
            let parent = new_name(random, &in_tree);
            let _ = fs::create_dir_all(new_name(random, &parent));
        }
        // Fills a folder under a temporary name and renames it.
        3 | 4 => {
            let temporary = in_tree.join("temporary");
            let _ = fs::create_dir_all(new_name(random, &temporary));
            let _ = fs::write(temporary.join("file"), "");
            let _ = fs::rename(&temporary, new_name(random, &in_tree));
            let _ = fs::remove_dir_all(&temporary);
        }
        // The root stays where it is.
        5.. if in_tree == *tree => {}
        5 | 6 => {
            let target = pick(random, &folders(tree));
            let _ = fs::rename(&in_tree, new_name(random, &target));
        }
        7 => drop(fs::rename(&in_tree, new_name(random, outside))),
        8 => {
            let from = pick(random, &folders(outside));
            let to = new_name(random, &in_tree);
            let _ = from != *outside && fs::rename(from, to).is_ok();
        }
        9 => {
            let place = if random.below(3) == 0 { outside } else { tree };
            let other = pick(random, &folders(place));
            if other != *place {
                let _ = ring::rename(CWD, &in_tree, CWD, &other, RenameFlags::EXCHANGE);
            }
        }
        10 => drop(fs::remove_dir_all(&in_tree)),
        _ => drop(fs::write(in_tree.join("file"), "text")),
    }
}

/// The numbers of the files that the inotify queue of this process watches which also watches
/// `root`.
fn watched(root: &Path) -> BTreeSet<u64> {
    let root = fs::metadata(root).unwrap().ino();
    let numbers = |info: String| -> BTreeSet<u64> {
        let lines = info.lines().filter(|line| line.starts_with("inotify "));
        let words = lines.filter_map(|line| line.split(' ').find_map(|w| w.strip_prefix("ino:")));
        words.map(|number| u64::from_str_radix(number, 16).unwrap()).collect()
    };
    let infos = fs::read_dir("/proc/self/fdinfo").unwrap().map_while(Result::ok);
    let infos = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
    infos.map(numbers).find(|numbers| numbers.contains(&root)).expect("a queue that watches it")
}

/// Creates a file and reads changes up to its creation; returns the entries whose creation was
/// reported before.
fn catch_up(watcher: &mut Watcher, root: &Path) -> (BTreeSet<PathBuf>, bool) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mark = root.join(format!("mark-{}", COUNT.fetch_add(1, SeqCst)));
    let (mut created, mut has_lost) = (BTreeSet::new(), false);
    let mut read = || {
        fs::write(&mark, "").unwrap();
        while !created.contains(&mark) {
            let change = watcher.next().expect("the root is there").expect("all can be watched");
            match change.kind {
                ChangeKind::Created => drop(created.insert(change.path)),
                ChangeKind::Lost => {
                    has_lost = true;
                    // The mark's creation may be among the lost notices.
                    fs::remove_file(&mark).unwrap();
                    fs::write(&mark, "").unwrap();
                }
                _ => {}
            }
        }
    };
    with_timeout(Duration::from_secs(60), &mut read).expect("the file is told of");
    fs::remove_file(&mark).unwrap();
    (created, has_lost)
}

/// Asserts that all folders of the tree are watched, and the one above, which tells of the root's
/// end, and no others; and that changes are reported by the right paths.
fn check(watcher: &mut Watcher, ground: &Ground, what: &str) {
    catch_up(watcher, &ground.tree);
    let present = folders(&ground.tree);
    let with_above = present.iter().chain([&ground.whole]);
    let numbers = with_above.map(|folder| fs::metadata(folder).unwrap().ino()).collect();
    assert_eq!(watched(&ground.tree), numbers, "{what}: the folders {present:?}");

    let probe = |folder: &PathBuf| folder.join("probe");
    for folder in folders(&ground.outside).iter().chain(&present) {
        fs::write(probe(folder), "").unwrap();
    }
    let (created, _) = catch_up(watcher, &ground.tree);
    let told: BTreeSet<_> = created.into_iter().filter(|path| path.ends_with("probe")).collect();
    assert_eq!(told, present.iter().map(probe).collect(), "{what}");
    for file in below(&ground.whole, fs::FileType::is_file) {
        fs::remove_file(file).unwrap();
    }
}

/// Compares after every few changes, so that later changes cannot hide an error.
#[test]
fn all_folders_of_a_tree_that_changes_at_random_are_watched() {
    let mut random = Random::new("trees");
    one_worker().run(|| {
        for round in 0..5 {
            let seed = random.below(u64::MAX);
            let mut random = Random::from_seed(seed);
            let ground = Ground::new();
            fs::create_dir_all(ground.tree.join("a/b/c")).unwrap();
            fs::create_dir_all(ground.outside.join("a/b")).unwrap();
            let mut watcher = Watcher::tree(&ground.tree).unwrap();
            for part in 0..15 {
                for _ in 0..=random.below(12) {
                    change(&mut random, &ground);
                }
                check(&mut watcher, &ground, &format!("round {round}, part {part}, seed {seed}"));
            }
        }
    });
}

/// The watcher lists folders while they move.
#[test]
fn a_tree_that_changes_while_it_is_looked_at_is_watched_in_the_end() {
    let mut random = Random::new("trees");
    for round in 0..2 {
        let seed = random.below(u64::MAX);
        let ground = Ground::new();
        let mut watcher = Watcher::tree(&ground.tree).unwrap();
        thread::scope(|s| {
            let changes = s.spawn(|| {
                let mut random = Random::from_seed(seed);
                for _ in 0..150 {
                    change(&mut random, &ground);
                }
            });
            while !changes.is_finished() {
                catch_up(&mut watcher, &ground.tree);
            }
        });
        check(&mut watcher, &ground, &format!("round {round}, seed {seed}"));
    }
}

/// The number of events that the kernel keeps; None if they are too many for a test.
fn events_kept() -> Option<usize> {
    let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let kept = kept.trim().parse().unwrap();
    if kept > 20_000 {
        common::skipped(format_args!("the kernel keeps {kept} events"));
        return None;
    }
    Some(kept)
}

/// Causes some more events in a folder than a number. Consecutive events differ, because the kernel
/// drops an event that equals the previous one.
fn cause_events(folder: &Path, count: usize) {
    let (one, other) = (folder.join("one"), folder.join("other"));
    fs::write(&one, "").unwrap();
    // Two events each.
    for _ in 0..=count / 4 {
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
}

/// More events happen than the kernel keeps.
#[test]
fn a_tree_is_watched_after_changes_were_lost() {
    let Some(kept) = events_kept() else { return };
    let ground = Ground::new();
    fs::create_dir_all(ground.tree.join("a/b/c")).unwrap();
    fs::create_dir_all(ground.tree.join("d/e")).unwrap();
    let mut watcher = Watcher::tree(&ground.tree).unwrap();
    cause_events(&ground.tree, kept);
    fs::rename(ground.tree.join("a"), ground.tree.join("d/e/f")).unwrap();
    fs::create_dir_all(ground.tree.join("new/er")).unwrap();
    fs::create_dir_all(ground.tree.join("d/e/f/b/new")).unwrap();
    fs::rename(ground.tree.join("d"), ground.tree.join("a")).unwrap();
    fs::rename(ground.tree.join("a/e/f/b/c"), ground.outside.join("c")).unwrap();
    let (_, has_lost) = catch_up(&mut watcher, &ground.tree);
    assert!(has_lost, "this test is about changes that are lost");
    check(&mut watcher, &ground, "after the loss");
}

/// The watcher has read that a folder left its place, but not where it went.
#[test]
fn a_folder_is_watched_after_the_notice_of_its_new_place_was_lost() {
    let Some(kept) = events_kept() else { return };
    let ground = Ground::new();
    fs::create_dir_all(ground.tree.join("a/b")).unwrap();
    let mut watcher = Watcher::tree(&ground.tree).unwrap();
    cause_events(&ground.tree, kept - 100);
    fs::rename(ground.tree.join("a"), ground.tree.join("c")).unwrap();
    cause_events(&ground.tree, 100);
    fs::rename(ground.tree.join("c"), ground.tree.join("d")).unwrap();
    fs::create_dir_all(ground.tree.join("d/b/new/er")).unwrap();
    let (_, has_lost) = catch_up(&mut watcher, &ground.tree);
    assert!(has_lost, "this test is about changes that are lost");
    check(&mut watcher, &ground, "after the loss");
}
