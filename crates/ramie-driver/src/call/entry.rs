//! From a call to a submission queue entry.

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};

use super::Call;

/// `FUTEX2_SIZE_U32`, and `FUTEX2_PRIVATE` for a word that other processes do not share.
const FUTEX_32_BITS: u32 = 0x02;
const FUTEX_PRIVATE: u32 = 0x80;
/// Every waiter is meant.
pub(super) const FUTEX_ALL: u32 = u32::MAX;

fn futex_flags(is_shared: bool) -> u32 {
    if is_shared { FUTEX_32_BITS } else { FUTEX_32_BITS | FUTEX_PRIVATE }
}

/// Builds the entry for `call`, without user data.
pub(crate) fn entry(call: &Call) -> Entry {
    match *call {
        Call::OpenAt2 { dir, path, how } => {
            opcode::OpenAt2::new(Fd(dir), path.cast(), how.cast()).build()
        }
        Call::Statx { dir, path, flags, mask, into } => {
            let statx = opcode::Statx::new(Fd(dir), path.cast(), into.cast());
            statx.flags(flags as i32).mask(mask).build()
        }
        Call::Sync { fd, data_only } => {
            let kind = if data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
            opcode::Fsync::new(Fd(fd)).flags(kind).build()
        }
        Call::Allocate { fd, mode, offset, len } => {
            opcode::Fallocate::new(Fd(fd), len).offset(offset).mode(mode as i32).build()
        }
        Call::Advise { fd, offset, len, advice } => {
            let (len, advice) = (len.min(u32::MAX.into()) as i64, advice as i32);
            opcode::Fadvise::new(Fd(fd), len, advice).offset(offset).build()
        }
        Call::Truncate { fd, len } => opcode::Ftruncate::new(Fd(fd), len).build(),
        Call::Socket { domain, kind, protocol } => {
            opcode::Socket::new(domain, kind, protocol).build()
        }
        Call::Bind { fd, addr, addr_len } => {
            opcode::Bind::new(Fd(fd), addr.cast(), addr_len).build()
        }
        Call::Listen { fd, backlog } => opcode::Listen::new(Fd(fd), backlog).build(),
        Call::Shutdown { fd, how } => opcode::Shutdown::new(Fd(fd), how).build(),
        Call::Splice { from, from_at, to, to_at, len, flags } => {
            let splice = opcode::Splice::new(Fd(from), from_at, Fd(to), to_at, len);
            splice.flags(flags).build()
        }
        Call::Tee { from, to, len, flags } => {
            opcode::Tee::new(Fd(from), Fd(to), len).flags(flags).build()
        }
        Call::Pipe { into, flags } => opcode::Pipe::new(into.cast()).flags(flags).build(),
        Call::WaitId { id_type, id, into, options } => {
            opcode::WaitId::new(id_type, id, options as i32).infop(into.cast()).build()
        }
        Call::FutexWait { word, value, is_shared } => {
            let (value, all) = (u64::from(value), u64::from(FUTEX_ALL));
            opcode::FutexWait::new(word, value, all, futex_flags(is_shared)).build()
        }
        Call::FutexWake { word, count, is_shared } => {
            let (count, all) = (u64::from(count), u64::from(FUTEX_ALL));
            opcode::FutexWake::new(word, count, all, futex_flags(is_shared)).build()
        }
        Call::Timeout { time } => opcode::Timeout::new(time.cast()).build(),
        Call::Message { ring, result, data } => {
            opcode::MsgRingData::new(Fd(ring), result, data, None).build()
        }
        _ => name_entry(call),
    }
}

/// The entry of a call on paths or attributes.
fn name_entry(call: &Call) -> Entry {
    match *call {
        Call::Rename { old_dir, old, new_dir, new, flags } => {
            let (old_dir, new_dir) = (Fd(old_dir), Fd(new_dir));
            opcode::RenameAt::new(old_dir, old.cast(), new_dir, new.cast()).flags(flags).build()
        }
        Call::Unlink { dir, path, flags } => {
            opcode::UnlinkAt::new(Fd(dir), path.cast()).flags(flags as i32).build()
        }
        Call::Link { old_dir, old, new_dir, new, flags } => {
            let link = opcode::LinkAt::new(Fd(old_dir), old.cast(), Fd(new_dir), new.cast());
            link.flags(flags as i32).build()
        }
        Call::Symlink { target, dir, path } => {
            opcode::SymlinkAt::new(Fd(dir), target.cast(), path.cast()).build()
        }
        Call::MakeDir { dir, path, mode } => {
            opcode::MkDirAt::new(Fd(dir), path.cast()).mode(mode).build()
        }
        Call::SetXattr { path, name, value, len, flags } => {
            let set = opcode::SetXattr::new(name.cast(), value.cast(), path.cast(), len);
            set.flags(flags as i32).build()
        }
        Call::GetXattr { path, name, value, len } => {
            opcode::GetXattr::new(name.cast(), value.cast(), path.cast(), len).build()
        }
        Call::SetXattrOf { fd, name, value, len, flags } => {
            let set = opcode::FSetXattr::new(Fd(fd), name.cast(), value.cast(), len);
            set.flags(flags as i32).build()
        }
        Call::GetXattrOf { fd, name, value, len } => {
            opcode::FGetXattr::new(Fd(fd), name.cast(), value.cast(), len).build()
        }
        _ => unreachable!("every other call has its own arm in `entry`"),
    }
}
