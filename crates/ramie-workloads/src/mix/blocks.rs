//! Reads from a file that miss the page cache.
//!
//! The file is written and synced before the clock starts, and has no name any more. A strand reads
//! a block that a generator picks, checks it, and removes it from the page cache again, so that the
//! next reader of this block finds it on the disk only.

use std::{
    env, fs,
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::fs::{Advice, fadvise};

use super::waits::Waits;
use crate::{WorkloadError, messages::Buffer};

/// The length of a block: one page.
const BLOCK: usize = 4096;
const FEWEST: u64 = 4096;
const MOST: u64 = 32_768;
/// Blocks for each strand, so that two strands seldom read the same one at the same time.
const PER_STRAND: u64 = 16;

/// The file of all strands of a process.
pub(super) struct BlockFile<W: Waits> {
    file: W::File,
    blocks: u64,
    read_before: Option<u64>,
}

impl<W: Waits> BlockFile<W> {
    /// Writes the file, in the folder for temporary files.
    pub(super) fn make(strands: usize) -> Result<Arc<Self>, WorkloadError> {
        let folder = env::temp_dir();
        let blocks = (strands as u64).saturating_mul(PER_STRAND).clamp(FEWEST, MOST);
        let file = write(&folder, blocks).map_err(|error| {
            WorkloadError::new(format!(
                "cannot write a file of {} MiB in {} ({error}); set TMPDIR to a folder with room",
                (blocks * BLOCK as u64) >> 20,
                folder.display()
            ))
        })?;
        Ok(Arc::new(BlockFile { file: file.into(), blocks, read_before: read_from_disks() }))
    }

    /// Reads one block. If the disk is faster than `wait`, waits for the rest of it.
    pub(super) fn read(&self, buffer: &mut Buffer, random: u64, wait: Duration) -> io::Result<()> {
        let start = Instant::now();
        let number = random % self.blocks;
        let offset = number * BLOCK as u64;
        W::read_exact_at(&self.file, buffer, offset)?;
        if !is_block(buffer, number) {
            return Err(io::Error::other(format!(
                "block {number} has other bytes than were written"
            )));
        }
        let length = std::num::NonZero::new(BLOCK as u64);
        fadvise(&self.file, offset, length, Advice::DontNeed)?;
        let rest = wait.saturating_sub(start.elapsed());
        if !rest.is_zero() {
            W::sleep(rest);
        }
        Ok(())
    }

    /// Fails if the reads of these steps have not reached a disk.
    pub(super) fn check(&self, steps: u64) -> Result<(), WorkloadError> {
        let Some((before, now)) = self.read_before.zip(read_from_disks()) else { return Ok(()) };
        let read = now.saturating_sub(before);
        if read >= steps * BLOCK as u64 / 2 {
            return Ok(());
        }
        Err(WorkloadError::new(format!(
            "of {steps} reads about {} reached a disk, because {} is kept in memory; set TMPDIR to \
             a folder on a disk",
            read / BLOCK as u64,
            env::temp_dir().display()
        )))
    }
}

/// A buffer for one block.
pub(super) fn buffer() -> Buffer {
    Buffer::new(BLOCK)
}

fn write(folder: &std::path::Path, blocks: u64) -> io::Result<fs::File> {
    let path = folder.join(format!("ramie-mix-{}", std::process::id()));
    let file = fs::File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    let mut writer = io::BufWriter::with_capacity(1 << 20, &file);
    for number in 0..blocks {
        writer.write_all(&block(number))?;
    }
    writer.flush()?;
    drop(writer);
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    // No readahead, which would bring other blocks into the cache.
    fadvise(&file, 0, None, Advice::Random)?;
    Ok(file)
}

/// A block is its number, again and again.
fn block(number: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    block
}

fn is_block(bytes: &[u8], number: u64) -> bool {
    bytes.len() == BLOCK && bytes.chunks_exact(8).all(|word| word == number.to_le_bytes())
}

/// The bytes that this process has read from disks so far, page cache excluded.
fn read_from_disks() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{block, is_block};

    #[test]
    fn a_wrong_byte_in_a_block_is_found() {
        let mut bytes = block(77);
        assert!(is_block(&bytes, 77) && !is_block(&bytes, 78) && !is_block(&bytes[8..], 77));
        bytes[4095] ^= 1;
        assert!(!is_block(&bytes, 77));
    }
}
