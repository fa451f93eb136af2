//! Watching files: inotify.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// A change of a watched file, or of an entry of a watched folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The file was created.
    Created,
    /// The file's content has changed.
    Modified,
    /// The file was closed by a process that had opened it for writing.
    Written,
    /// The file's permissions, owner, times or links have changed.
    Attributes,
    /// The file was deleted.
    Deleted,
    /// The file was moved to another name; the notice about the new name has the same number.
    MovedFrom(u32),
    /// The file was moved here from another name.
    MovedTo(u32),
    /// The watched file itself was moved to another name.
    MovedItself,
    /// The watch has ended: the file is gone, or its file system.
    Unwatched,
    /// The kernel's queue was full, and notices are lost.
    Overflow,
}

/// Makes a nonblocking queue of notices.
///
/// # Errors
/// `EMFILE`: among others, more than `fs.inotify.max_user_instances`.
pub fn inotify() -> io::Result<OwnedFd> {
    Ok(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?)
}

/// The kinds of files that a path to be watched may lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// Anything, also by a symbolic link.
    Anything,
    /// A folder, also by a symbolic link.
    Folder,
    /// A folder itself.
    FolderItself,
}

/// Watches a path; notices about it carry the number that is returned.
///
/// # Errors
/// `ENOSPC`: more than `fs.inotify.max_user_watches`. `ENOTDIR`: the path does not lead to a
/// folder, or ends at a symbolic link that `watched` excludes. Those of a path.
pub fn inotify_watch(queue: impl AsFd, path: &Path, watched: Watched) -> io::Result<i32> {
    let mut flags = WatchFlags::CREATE
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE
        | WatchFlags::MOVE_SELF
        | WatchFlags::EXCL_UNLINK;
    flags |= match watched {
        Watched::Anything => WatchFlags::empty(),
        Watched::Folder => WatchFlags::ONLYDIR,
        Watched::FolderItself => WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW,
    };
    Ok(inotify::add_watch(queue, path, flags)?)
}

/// Watches a folder for the removal of entries, in addition to what it is watched for already.
///
/// # Errors
/// Those of [`inotify_watch`].
pub fn inotify_watch_removals(queue: impl AsFd, folder: &Path) -> io::Result<i32> {
    let flags = WatchFlags::DELETE | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
    Ok(inotify::add_watch(queue, folder, flags)?)
}

/// Ends a watch.
///
/// # Errors
/// `EINVAL`: it has ended.
pub fn inotify_unwatch(queue: impl AsFd, watch: i32) -> io::Result<()> {
    Ok(inotify::remove_watch(queue, watch)?)
}

/// Reads the queue, at most some hundred notices. Calls `each` with the watch's number, the change,
/// whether it concerns a folder, and the entry's name, which is empty for the watched file itself.
///
/// # Errors
/// `EAGAIN`: there is none.
pub fn inotify_read(
    queue: impl AsFd,
    mut each: impl FnMut(i32, Notice, bool, &OsStr),
) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); 8 << 10];
    let mut reader = Reader::new(queue, &mut buffer);
    loop {
        let event = match reader.next() {
            Err(Errno::INTR) => continue,
            event => event?,
        };
        let name =
            event.file_name().map_or(OsStr::new(""), |name| OsStr::from_bytes(name.to_bytes()));
        let is_dir = event.events().contains(ReadFlags::ISDIR);
        if let Some(notice) = notice(event.events(), event.cookie()) {
            each(event.wd(), notice, is_dir, name);
        }
        if reader.is_buffer_empty() {
            return Ok(());
        }
    }
}

fn notice(flags: ReadFlags, cookie: u32) -> Option<Notice> {
    [
        (ReadFlags::CREATE, Notice::Created),
        (ReadFlags::MODIFY, Notice::Modified),
        (ReadFlags::CLOSE_WRITE, Notice::Written),
        (ReadFlags::ATTRIB, Notice::Attributes),
        (ReadFlags::DELETE.union(ReadFlags::DELETE_SELF), Notice::Deleted),
        (ReadFlags::MOVED_FROM, Notice::MovedFrom(cookie)),
        (ReadFlags::MOVED_TO, Notice::MovedTo(cookie)),
        (ReadFlags::MOVE_SELF, Notice::MovedItself),
        (ReadFlags::IGNORED.union(ReadFlags::UNMOUNT), Notice::Unwatched),
        (ReadFlags::QUEUE_OVERFLOW, Notice::Overflow),
    ]
    .into_iter()
    .find_map(|(flag, notice)| flags.intersects(flag).then_some(notice))
}
