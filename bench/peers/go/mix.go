package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The waits of one strand, each with a number of its own. An error ends the strand.
type waiter func(number uint64) error

// The waits of a run.
type waits struct {
	// Makes the waits of each strand, before the clock starts.
	open func(strands int, wait time.Duration) ([]waiter, error)
	// Ends what `open` has begun; checks what all strands have done.
	close func(steps int) error
}

// A step of mix computes for so many microseconds, waits for so many, and begins again, until the
// milliseconds are over. `ramie run mix --wait KIND` is the same work.
func mix(kind func() waits) func(n []int) outcome {
	return func(n []int) outcome {
		concurrency, cpuUs, waitUs, ms := n[0], n[1], n[2], n[3]
		iterations := iterationsPerMs() * cpuUs / 1000
		right := compute(iterations)
		of := kind()
		waiters, err := of.open(concurrency, time.Duration(waitUs)*time.Microsecond)
		if err != nil {
			return outcome{ops: 1, err: err}
		}
		// The preparation is no part of the milliseconds.
		start := time.Now()
		end := start.Add(time.Duration(ms) * time.Millisecond)
		steps, wrong, failures := strands(waiters, end, iterations, right)
		if steps < concurrency {
			err = fmt.Errorf("%d steps by %d goroutines", steps, concurrency)
		}
		err = errors.Join(err, failures, check("the number of wrong results", wrong, 0))
		stop := time.Now()
		err = errors.Join(err, of.close(steps))
		return outcome{ops: max(steps, 1), start: start, end: stop, err: err}
	}
}

// Runs a goroutine for each waiter until the end; returns the number of steps and that of wrong
// results.
func strands(waiters []waiter, end time.Time, iterations int, right uint64) (int, int, error) {
	var steps, wrong atomic.Int64
	var all sync.WaitGroup
	failures := make([]error, len(waiters))
	for strand, wait := range waiters {
		all.Go(func() {
			made := int64(0)
			for time.Now().Before(end) {
				if compute(iterations) != right {
					wrong.Add(1)
				}
				number := scramble(uint64(strand)*0x9e3779b97f4a7c15 + uint64(made))
				if failures[strand] = wait(number); failures[strand] != nil {
					break
				}
				made++
			}
			steps.Add(made)
		})
	}
	all.Wait()
	return int(steps.Load()), int(wrong.Load()), errors.Join(failures...)
}

// A chain of multiplications, each of which waits for the one before.
//
//go:noinline
func compute(iterations int) uint64 {
	x := uint64(1)
	for i := range iterations {
		x = x*6364136223846793005 + uint64(i)
	}
	return x
}

// Scrambles a number (the finalizer of splitmix64).
func scramble(number uint64) uint64 {
	mixed := number + 0x9e3779b97f4a7c15
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	return mixed ^ mixed>>31
}

// The speed of the CPU: the fastest of several samples, because other programs slow it down.
func iterationsPerMs() int {
	const sample = 100_000
	best := time.Hour
	for range 20 {
		start := time.Now()
		compute(sample)
		best = min(best, time.Since(start))
	}
	return max(int(float64(sample)*float64(time.Millisecond)/float64(best)), 1)
}
