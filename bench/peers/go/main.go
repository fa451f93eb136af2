// The workloads in Go: a goroutine for each task.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A workload: the names of its numbers, and what it runs.
type workload struct {
	name    string
	numbers []string
	run     func(n []int) outcome
}

// What a run has done, beside the time that it took.
type outcome struct {
	ops   int
	start time.Time // when it began after some preparation; zero: without any
	end   time.Time // when it ended before some cleaning up; zero: without any
	err   error
	rssKB int // 0: not measured
}

var mixNumbers = []string{"concurrency", "cpu-us", "wait-us", "ms"}

var workloads = []workload{
	{"feed", []string{"people", "nutrients"}, feed},
	{"ring", []string{"size", "hops"}, ring},
	{"spawn", []string{"count"}, spawn},
	{"alive", []string{"count"}, alive},
	{"switch", []string{"count"}, switches},
	{"basic", []string{"yields"}, basic},
	{"recurse", []string{"depth"}, recurse},
	{"recurse2", []string{"depth"}, recurse2},
	{"pipe", []string{"pairs", "messages", "bytes"}, pipe},
	{"socketpair", []string{"pairs", "messages", "bytes"}, socketpair},
	{"mix", mixNumbers, mix(byTimer)},
	{"mix-socket", mixNumbers, mix(bySocket)},
	{"mix-pipe", mixNumbers, mix(byPipe)},
	{"mix-file", mixNumbers, mix(byFile)},
	{"mix-lock", mixNumbers, mix(byLock)},
	// A capacity of 0 means unbounded.
	{"channel", []string{"capacity", "senders", "receivers", "count"}, channel},
}

func usage(why string) {
	fmt.Fprintf(os.Stderr, "%s\nUsage: peer [--threads T] WORKLOAD NUMBERS\n", why)
	for _, w := range workloads {
		fmt.Fprintf(os.Stderr, "  %s %s\n", w.name, strings.ToUpper(strings.Join(w.numbers, " ")))
	}
	os.Exit(2)
}

// The number in a word of the command line.
func number(name, word string, least int) int {
	n, err := strconv.Atoi(word)
	if err != nil || n < least {
		usage(fmt.Sprintf("%s is %q, which is no whole number of %d or more", name, word, least))
	}
	return n
}

func find(name string) workload {
	for _, w := range workloads {
		if w.name == name {
			return w
		}
	}
	usage(fmt.Sprintf("there is no workload %q", name))
	panic("unreachable")
}

func main() {
	words, threads := os.Args[1:], 1
	if len(words) == 3 && words[0] == respondCommand {
		if err := respond(words[1], number("strands", words[2], 1)); err != nil {
			fmt.Fprintf(os.Stderr, "the responder failed: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if len(words) == 1 && words[0] == httpCommand {
		fmt.Fprintf(os.Stderr, "the server failed: %v\n", serveHTTP())
		os.Exit(1)
	}
	if len(words) >= 2 && words[0] == "--threads" {
		threads = number("--threads", words[1], 1)
		words = words[2:]
	}
	if len(words) == 0 {
		usage("no workload is given")
	}
	w := find(words[0])
	if len(words)-1 != len(w.numbers) {
		usage(fmt.Sprintf("%s takes %d numbers, not %d", w.name, len(w.numbers), len(words)-1))
	}
	numbers := make([]int, len(w.numbers))
	for i, name := range w.numbers {
		least := 1
		if name == "capacity" {
			least = 0
		}
		numbers[i] = number(name, words[i+1], least)
	}
	runtime.GOMAXPROCS(threads)
	start := time.Now()
	result := w.run(numbers)
	end := time.Now()
	if !result.start.IsZero() {
		start = result.start
	}
	if !result.end.IsZero() {
		end = result.end
	}
	seconds := end.Sub(start).Seconds()
	if result.err != nil {
		fmt.Fprintf(os.Stderr, "%s went wrong: %v\n", w.name, result.err)
		os.Exit(1)
	}
	fmt.Printf("%s seconds=%.9f per_op_ns=%.2f", strings.Join(words, " "), seconds,
		seconds*1e9/float64(result.ops))
	if result.rssKB > 0 {
		fmt.Printf(" rss_kb=%d", result.rssKB)
	}
	fmt.Println()
}

// An error unless the two are equal.
func check(what string, got, wanted int) error {
	if got == wanted {
		return nil
	}
	return fmt.Errorf("%s is %d, not %d", what, got, wanted)
}
