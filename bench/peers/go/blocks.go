package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	blockBytes      = 4096
	fewestBlocks    = 4096
	mostBlocks      = 32_768
	blocksPerStrand = 16
	adviceRandom    = 1
	adviceDoNotNeed = 4
)

// Reads of 4 KiB that miss the page cache. If the disk is faster than the wait, a sleep follows for
// the rest.
func byFile() waits {
	var file *os.File
	var before int
	open := func(strands int, wait time.Duration) ([]waiter, error) {
		blocks := min(max(strands*blocksPerStrand, fewestBlocks), mostBlocks)
		var err error
		if file, err = writeBlocks(blocks); err != nil {
			return nil, fmt.Errorf("cannot write a file of %d MiB in %s (%w); set TMPDIR to a "+
				"folder with room", blocks*blockBytes>>20, os.TempDir(), err)
		}
		before = readFromDisks()
		all := make([]waiter, strands)
		for i := range all {
			all[i] = blockReader(file, blocks, wait)
		}
		return all, nil
	}
	end := func(steps int) error {
		read := readFromDisks() - before
		if before < 0 || read >= steps*blockBytes/2 {
			return file.Close()
		}
		return errors.Join(file.Close(), fmt.Errorf("of %d reads about %d reached a disk, because "+
			"%s is kept in memory; set TMPDIR to a folder on a disk", steps, read/blockBytes,
			os.TempDir()))
	}
	return waits{open, end}
}

func blockReader(file *os.File, blocks int, wait time.Duration) waiter {
	buffer := make([]byte, blockBytes)
	return func(random uint64) error {
		start := time.Now()
		number := random % uint64(blocks)
		offset := int64(number) * blockBytes
		if _, err := file.ReadAt(buffer, offset); err != nil {
			return err
		}
		if !bytes.Equal(buffer, block(number)) {
			return fmt.Errorf("block %d has other bytes than were written", number)
		}
		if err := advise(file, offset, blockBytes, adviceDoNotNeed); err != nil {
			return err
		}
		time.Sleep(wait - time.Since(start)) // Returns at once if nothing is left.
		return nil
	}
}

// Writes the file, which has no name any more, and removes it from the page cache.
func writeBlocks(blocks int) (*os.File, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("ramie-go-mix-%d", os.Getpid()))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	writer := bufio.NewWriterSize(file, 1<<20)
	for number := range blocks {
		if _, err := writer.Write(block(uint64(number))); err != nil {
			return nil, err
		}
	}
	// No readahead, which would bring other blocks into the cache.
	return file, errors.Join(writer.Flush(), file.Sync(),
		advise(file, 0, 0, adviceDoNotNeed),
		advise(file, 0, 0, adviceRandom))
}

// A block is its number, again and again.
func block(number uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, number), blockBytes/8)
}

func advise(file *os.File, offset, length int64, advice int) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), uintptr(offset),
		uintptr(length), uintptr(advice), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// The bytes that this process has read from disks so far, page cache excluded; -1 if it is not known.
func readFromDisks() int {
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(io) {
		if rest, is := bytes.CutPrefix(line, []byte("read_bytes: ")); is {
			read, err := strconv.Atoi(string(bytes.TrimSpace(rest)))
			if err == nil {
				return read
			}
		}
	}
	return -1
}
