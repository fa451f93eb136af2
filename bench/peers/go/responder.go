package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The command of the program that is the responder, and the first of its descriptors that belong
// to strands.
const (
	respondCommand  = "respond"
	firstDescriptor = 3
)

// A request is a number and a wait in nanoseconds; the answer is the scrambled number and the wait.
func exchanged(number, wait uint64) []byte {
	bytes := binary.LittleEndian.AppendUint64(nil, number)
	return binary.LittleEndian.AppendUint64(bytes, wait)
}

// The ends of a strand: where its requests go, and where its answers come from.
type ends struct {
	requests io.WriteCloser
	answers  io.ReadCloser
}

// Requests to a responder in a process of its own, over a Unix socket of each strand.
func bySocket() waits {
	return byResponder("socket", func() (ends, []*os.File, error) {
		flags := syscall.SOCK_STREAM | syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC
		fds, err := syscall.Socketpair(syscall.AF_UNIX, flags, 0)
		if err != nil {
			return ends{}, nil, err
		}
		ours, err := connection(fds[0])
		return ends{ours, ours}, []*os.File{os.NewFile(uintptr(fds[1]), "socket")}, err
	})
}

// The same over two pipes of each strand.
func byPipe() waits {
	return byResponder("pipe", func() (ends, []*os.File, error) {
		toRead, requests, err := os.Pipe()
		if err != nil {
			return ends{}, nil, err
		}
		answers, toWrite, err := os.Pipe()
		return ends{requests, answers}, []*os.File{toRead, toWrite}, err
	})
}

// `pair` makes the ends of a strand, and those of the responder.
func byResponder(kind string, pair func() (ends, []*os.File, error)) waits {
	var all []ends
	var responder *exec.Cmd
	open := func(strands int, wait time.Duration) ([]waiter, error) {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		responder = exec.Command(program, respondCommand, kind, strconv.Itoa(strands))
		responder.Stderr = os.Stderr
		waiters := make([]waiter, strands)
		for range strands {
			ours, theirs, err := pair()
			if err != nil {
				return nil, fmt.Errorf("no %s for each goroutine (%w); raise `ulimit -n`", kind, err)
			}
			all = append(all, ours)
			responder.ExtraFiles = append(responder.ExtraFiles, theirs...)
		}
		err = responder.Start()
		for _, file := range responder.ExtraFiles {
			file.Close()
		}
		if err != nil {
			return nil, err
		}
		for i, ours := range all {
			waiters[i] = ours.waiter(wait)
			// The start of the responder is no part of the first wait.
			if err := ours.waiter(0)(0); err != nil {
				return nil, err
			}
		}
		return waiters, nil
	}
	end := func(int) error {
		var failures error
		for _, ours := range all {
			failures = errors.Join(failures, ours.requests.Close())
		}
		// It ends once all requests are closed.
		return errors.Join(failures, responder.Wait())
	}
	return waits{open, end}
}

func (e ends) waiter(wait time.Duration) waiter {
	answer := make([]byte, 16)
	return func(number uint64) error {
		if _, err := e.requests.Write(exchanged(number, uint64(wait))); err != nil {
			return err
		}
		if _, err := io.ReadFull(e.answers, answer); err != nil {
			return err
		}
		if string(answer) != string(exchanged(scramble(number), uint64(wait))) {
			return errors.New("an answer has other bytes than were asked for")
		}
		return nil
	}
}

// Answers the requests of these strands, which come through the descriptors of this process, until
// all are closed.
func respond(kind string, strands int) error {
	runtime.GOMAXPROCS(max(runtime.NumCPU()/2, 1))
	var all sync.WaitGroup
	defer all.Wait()
	for strand := range strands {
		reader, writer, err := strandEnds(kind, strand)
		if err != nil {
			return err
		}
		all.Go(func() { answerAll(reader, writer) })
	}
	return nil
}

// The ends of a strand: one descriptor of a socket, or two of pipes.
func strandEnds(kind string, strand int) (io.Reader, io.Writer, error) {
	if kind == "socket" {
		ours, err := connection(firstDescriptor + strand)
		return ours, ours, err
	}
	reader, writer := firstDescriptor+2*strand, firstDescriptor+2*strand+1
	for _, fd := range []int{reader, writer} {
		// Otherwise each read would take a thread.
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, nil, err
		}
	}
	return os.NewFile(uintptr(reader), "pipe"), os.NewFile(uintptr(writer), "pipe"), nil
}

func answerAll(reader io.Reader, writer io.Writer) {
	request := make([]byte, 16)
	for {
		if _, err := io.ReadFull(reader, request); err != nil {
			return
		}
		number := binary.LittleEndian.Uint64(request)
		wait := binary.LittleEndian.Uint64(request[8:])
		time.Sleep(time.Duration(wait))
		if _, err := writer.Write(exchanged(scramble(number), wait)); err != nil {
			return
		}
	}
}
