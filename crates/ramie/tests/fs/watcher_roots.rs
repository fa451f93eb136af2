//! Watched files and folders that no longer have the path by which they were watched, and the ends
//! of watched folders.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    common::{self, everywhere},
    watcher::{Folder, until},
};
use ramie::fs::{ChangeKind, Watcher};

/// A tree `root`, in a folder of its own, and the path by which it is watched.
struct Scene {
    ground: Folder,
    path: PathBuf,
    /// Where the tree is after the change.
    now: PathBuf,
}

fn root_renamed() -> (Scene, impl FnOnce()) {
    let ground = Folder::new();
    let (path, now) = (ground.0.join("root"), ground.0.join("renamed"));
    fs::create_dir_all(path.join("sub")).unwrap();
    let (from, to) = (path.clone(), now.clone());
    (Scene { ground, path, now }, move || fs::rename(from, to).unwrap())
}

fn folder_above_renamed() -> (Scene, impl FnOnce()) {
    let ground = Folder::new();
    let (from, to) = (ground.0.join("above"), ground.0.join("renamed"));
    let (path, now) = (from.join("root"), to.join("root"));
    fs::create_dir_all(path.join("sub")).unwrap();
    (Scene { ground, path, now }, move || fs::rename(from, to).unwrap())
}

/// Another folder takes the place of the root.
fn replaced() -> (Scene, impl FnOnce()) {
    let (scene, rename) = root_renamed();
    let path = scene.path.clone();
    (scene, move || {
        rename();
        fs::create_dir_all(path.join("sub")).unwrap();
    })
}

fn link_changed() -> (Scene, impl FnOnce()) {
    let ground = Folder::new();
    let (path, now, other) = (ground.0.join("link"), ground.0.join("one"), ground.0.join("other"));
    fs::create_dir_all(now.join("sub")).unwrap();
    fs::create_dir_all(other.join("sub")).unwrap();
    symlink(&now, &path).unwrap();
    let link = path.clone();
    (Scene { ground, path, now }, move || {
        fs::remove_file(&link).unwrap();
        symlink(&other, &link).unwrap();
    })
}

/// Makes folders in a tree, one of them below another, and a file in each once it was reported.
fn check(watcher: &mut Watcher, path: &Path, now: &Path) {
    for folder in ["new", "sub/new", "sub/new/er"] {
        fs::create_dir(now.join(folder)).unwrap();
        until(watcher, &path.join(folder), &ChangeKind::Created);
        fs::write(now.join(folder).join("file"), "text").unwrap();
        until(watcher, &path.join(folder).join("file"), &ChangeKind::Written);
    }
    fs::rename(now.join("new"), now.join("sub/moved")).unwrap();
    let renamed = ChangeKind::Renamed { from: path.join("new") };
    until(watcher, &path.join("sub/moved"), &renamed);
    fs::write(now.join("sub/moved/file"), "more").unwrap();
    until(watcher, &path.join("sub/moved/file"), &ChangeKind::Written);
}

fn check_scene((scene, change): (Scene, impl FnOnce())) {
    let mut watcher = Watcher::tree(&scene.path).unwrap();
    change();
    check(&mut watcher, &scene.path, &scene.now);
    drop(scene.ground);
}

#[test]
fn a_tree_is_watched_though_its_path_leads_elsewhere() {
    everywhere(|| {
        check_scene(root_renamed());
        check_scene(folder_above_renamed());
        check_scene(replaced());
        check_scene(link_changed());
    });
}

/// The working directory belongs to the whole process, so this needs one of its own.
#[test]
fn a_relative_path_is_looked_up_once() {
    const NAME: &str = "a_relative_path_is_looked_up_once";
    if !common::is_child() {
        return common::assert_success(&common::child(NAME));
    }
    everywhere(|| {
        let ground = Folder::new();
        fs::create_dir_all(ground.0.join("root/sub")).unwrap();
        env::set_current_dir(&ground.0).unwrap();
        let mut watcher = Watcher::tree("root").unwrap();
        env::set_current_dir("/").unwrap();
        check(&mut watcher, Path::new("root"), &ground.0.join("root"));
    });
}

/// Makes more changes in a folder than the kernel keeps; false if it keeps too many.
fn overflow(folder: &Path) -> bool {
    let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let kept: usize = kept.trim().parse().unwrap();
    if kept > 20_000 {
        common::skipped(format_args!("the kernel keeps {kept} events"));
        return false;
    }
    let (one, other) = (folder.join("one"), folder.join("other"));
    fs::write(&one, "").unwrap();
    for _ in 0..=kept / 4 {
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    true
}

#[test]
fn a_renamed_tree_is_watched_after_changes_were_lost() {
    let (scene, change) = root_renamed();
    let mut watcher = Watcher::tree(&scene.path).unwrap();
    change();
    if overflow(&scene.now) {
        fs::create_dir(scene.now.join("late")).unwrap();
        until(&mut watcher, &scene.path, &ChangeKind::Lost);
        fs::write(scene.now.join("late/file"), "").unwrap();
        until(&mut watcher, &scene.path.join("late/file"), &ChangeKind::Created);
        check(&mut watcher, &scene.path, &scene.now);
    }
}

#[test]
fn a_renamed_folder_is_watched_after_changes_were_lost() {
    let (scene, change) = replaced();
    let mut watcher = Watcher::new(&scene.path).unwrap();
    change();
    if overflow(&scene.now) {
        until(&mut watcher, &scene.path, &ChangeKind::Lost);
        fs::write(scene.now.join("late"), "").unwrap();
        until(&mut watcher, &scene.path.join("late"), &ChangeKind::Created);
    }
}

/// Calls `check` for a watcher of a folder and one of a tree, each after changes were lost.
fn after_lost_changes(check: impl Fn(Watcher, &Scene)) {
    for is_tree in [false, true] {
        let (scene, change) = root_renamed();
        let watch = if is_tree { Watcher::tree } else { Watcher::new };
        let watcher = watch(&scene.path).unwrap();
        change();
        if overflow(&scene.now) {
            check(watcher, &scene);
        }
    }
}

#[test]
fn the_end_of_a_folder_is_seen_among_lost_changes() {
    after_lost_changes(|mut watcher, scene| {
        fs::remove_dir_all(&scene.now).unwrap();
        until(&mut watcher, &scene.path, &ChangeKind::Lost);
        // A child process that another test starts has the folder open until it runs its program,
        // and then the notice of the end comes behind those that were lost.
        let further: Vec<_> = watcher.map(|change| change.unwrap().kind).collect();
        assert!(further.is_empty() || further == [ChangeKind::Removed], "{further:?}");
    });
}

#[test]
fn the_end_of_a_folder_that_is_still_open_is_reported_behind_lost_changes() {
    after_lost_changes(|mut watcher, scene| {
        let open = fs::File::open(&scene.now).unwrap();
        fs::remove_dir_all(&scene.now).unwrap();
        until(&mut watcher, &scene.path, &ChangeKind::Lost);
        drop(open);
        until(&mut watcher, &scene.path, &ChangeKind::Removed);
        assert!(watcher.next().is_none(), "what it watched is gone");
    });
}

/// A tree's root is kept open, and the kernel does not report the end of an open folder.
#[test]
fn the_end_of_a_tree_is_reported() {
    let ends = |watcher: &mut Watcher, root: &Path| {
        until(watcher, root, &ChangeKind::Removed);
        assert!(watcher.next().is_none(), "what it watched is gone");
    };
    everywhere(|| {
        let ground = Folder::new();
        let (root, now) = (ground.0.join("root"), ground.0.join("above/now"));
        let begin = || {
            fs::create_dir_all(root.join("sub")).unwrap();
            fs::create_dir_all(ground.0.join("above")).unwrap();
            Watcher::tree(&root).unwrap()
        };
        let mut watcher = begin();
        fs::remove_dir_all(&root).unwrap();
        ends(&mut watcher, &root);

        let mut watcher = begin();
        fs::rename(&root, &now).unwrap();
        fs::remove_dir_all(&now).unwrap();
        ends(&mut watcher, &root);

        let mut watcher = begin();
        fs::rename(&root, &now).unwrap();
        fs::write(now.join("file"), "").unwrap();
        until(&mut watcher, &root.join("file"), &ChangeKind::Written);
        fs::remove_dir_all(&now).unwrap();
        ends(&mut watcher, &root);

        // Another folder takes its name.
        let mut watcher = begin();
        fs::remove_dir(root.join("sub")).unwrap();
        fs::rename(ground.0.join("above"), &root).unwrap();
        ends(&mut watcher, &root);
    });
}

/// A file system of containers, on which a removed folder of an image keeps its links.
#[test]
fn the_end_of_a_root_on_an_overlay_is_reported() {
    let ground = Folder::new();
    let [lower, upper, work, merged] =
        ["lower", "upper", "work", "merged"].map(|name| ground.0.join(name));
    fs::create_dir_all(lower.join("root/sub")).unwrap();
    for folder in [&upper, &work, &merged] {
        fs::create_dir_all(folder).unwrap();
    }
    let folders = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "overlay", "overlay", "-o", &folders]).arg(&merged);
    if !mount.output().is_ok_and(|output| output.status.success()) {
        return common::skipped("no overlay file system can be mounted");
    }
    let unmount = || std::process::Command::new("umount").arg(&merged).status().unwrap();
    let root = merged.join("root");
    common::one_worker().run(|| {
        let mut watcher = Watcher::tree(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        until(&mut watcher, &root, &ChangeKind::Removed);
        assert!(watcher.next().is_none(), "what it watched is gone");
    });
    assert!(unmount().success());
}
