package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

func pipe(n []int) outcome {
	return transfer(n, func() (io.ReadCloser, io.WriteCloser, error) { return os.Pipe() })
}

func socketpair(n []int) outcome {
	return transfer(n, func() (io.ReadCloser, io.WriteCloser, error) {
		flags := syscall.SOCK_STREAM | syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC
		ends, err := syscall.Socketpair(syscall.AF_UNIX, flags, 0)
		if err != nil {
			return nil, nil, err
		}
		reader, err := connection(ends[0])
		if err != nil {
			return nil, nil, err
		}
		writer, err := connection(ends[1])
		return reader, writer, err
	})
}

func connection(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close() // FileConn has a descriptor of its own.
	return net.FileConn(file)
}

func transfer(n []int, open func() (io.ReadCloser, io.WriteCloser, error)) outcome {
	pairs, messages, size := n[0], n[1], n[2]
	failures := make([]error, 2*pairs)
	var all sync.WaitGroup
	for pair := range pairs {
		reader, writer, err := open()
		if err != nil {
			failures[2*pair] = err
			break
		}
		all.Go(func() { failures[2*pair] = write(writer, pair, messages, size) })
		all.Go(func() { failures[2*pair+1] = read(reader, pair, messages, size) })
	}
	all.Wait()
	return outcome{ops: pairs * messages, err: errors.Join(failures...)}
}

// A message begins with its number; the rest is a pattern of the pair.
func message(pair, size int) []byte {
	message := make([]byte, size)
	for i := range message {
		message[i] = byte(i*31 + pair*7)
	}
	return message
}

func stamp(message []byte, number int) {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], uint64(number))
	copy(message, bytes[:])
}

func write(writer io.WriteCloser, pair, messages, size int) error {
	defer writer.Close()
	message := message(pair, size)
	for number := range messages {
		stamp(message, number)
		if _, err := writer.Write(message); err != nil {
			return err
		}
	}
	return nil
}

func read(reader io.ReadCloser, pair, messages, size int) error {
	defer reader.Close()
	wanted, got := message(pair, size), make([]byte, size)
	for number := range messages {
		if _, err := io.ReadFull(reader, got); err != nil {
			return err
		}
		stamp(wanted, number)
		if !bytes.Equal(got, wanted) {
			return fmt.Errorf("message %d of pair %d has other bytes", number, pair)
		}
	}
	if _, err := reader.Read(got[:1]); err != io.EOF {
		return fmt.Errorf("pair %d has more bytes than were written", pair)
	}
	return nil
}
