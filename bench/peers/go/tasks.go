package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

type person struct{ iron, calcium, fiber uint32 }

func feed(n []int) outcome {
	people, nutrients := make([]person, n[0]), n[1]
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() {
			for range nutrients {
				people[i].iron++
				people[i].calcium++
				people[i].fiber++
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	var err error
	for _, p := range people {
		for _, counter := range []uint32{p.iron, p.calcium, p.fiber} {
			err = errors.Join(err, check("a counter", int(counter), nutrients))
		}
	}
	return outcome{ops: n[0] * n[1], err: err}
}

// A token goes round until it has made all hops; then a larger one ends the goroutines.
func ring(n []int) outcome {
	size, hops := n[0], n[1]
	inboxes := make([]chan int, size)
	for i := range inboxes {
		inboxes[i] = make(chan int, 1)
	}
	made := make([]int, size)
	var all sync.WaitGroup
	for i := range inboxes {
		all.Go(func() {
			inbox, next := inboxes[i], inboxes[(i+1)%size]
			hopsMade := 0
			for {
				token := <-inbox
				if token > hops {
					made[i] = hopsMade
					next <- token
					return
				}
				hopsMade++
				next <- token + 1
			}
		})
	}
	inboxes[0] <- 1
	all.Wait()
	total := 0
	for _, hopsMade := range made {
		total += hopsMade
	}
	return outcome{ops: hops, err: check("the number of hops", total, hops)}
}

func spawn(n []int) outcome {
	var counter atomic.Int64
	var all sync.WaitGroup
	for range n[0] {
		all.Go(func() { counter.Add(1) })
	}
	all.Wait()
	return outcome{ops: n[0], err: check("the counter", int(counter.Load()), n[0])}
}

func alive(n []int) outcome {
	before := residentBytes()
	event, arrived := make(chan struct{}), make(chan struct{})
	var waiting, passed atomic.Int64
	var all sync.WaitGroup
	for range n[0] {
		all.Go(func() {
			if waiting.Add(1) == int64(n[0]) {
				close(arrived)
			}
			<-event
			passed.Add(1)
		})
	}
	<-arrived
	after := residentBytes()
	close(event)
	all.Wait()
	err := check("the number of goroutines that passed", int(passed.Load()), n[0])
	if after <= before {
		err = errors.Join(err, fmt.Errorf("the resident memory did not grow"))
	}
	return outcome{ops: n[0], err: err, rssKB: (after - before) / 1024}
}

func residentBytes() int {
	statm, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(statm)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(string(fields[1]))
	return pages * os.Getpagesize()
}

func switches(n []int) outcome {
	var yields atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range n[0] {
				runtime.Gosched()
			}
			yields.Add(int64(n[0]))
		})
	}
	all.Wait()
	return outcome{ops: 2 * n[0], err: check("the number of yields", int(yields.Load()), 2*n[0])}
}

const rounds, roundsOfAllLevels = 15_000, 1_500

func basic(n []int) outcome {
	calls := 0
	inGoroutine(func() {
		for range rounds * n[0] {
			runtime.Gosched()
			calls++
		}
	})
	return outcome{ops: rounds * n[0], err: check("the number of calls", calls, rounds*n[0])}
}

func recurse(n []int) outcome {
	sum := 0
	inGoroutine(func() {
		for range rounds {
			sum += down(n[0])
		}
	})
	return outcome{ops: rounds, err: check("the sum", sum, rounds*n[0]*(n[0]+1)/2)}
}

func down(depth int) int {
	if depth == 0 {
		runtime.Gosched()
		return 0
	}
	return down(depth-1) + depth
}

func recurse2(n []int) outcome {
	sum := 0
	inGoroutine(func() {
		for range roundsOfAllLevels {
			sum += downYielding(n[0])
		}
	})
	right := roundsOfAllLevels * n[0] * (n[0] + 1) / 2
	return outcome{ops: roundsOfAllLevels * n[0], err: check("the sum", sum, right)}
}

func downYielding(depth int) int {
	runtime.Gosched()
	if depth == 0 {
		return 0
	}
	return downYielding(depth-1) + depth
}

func inGoroutine(f func()) {
	var one sync.WaitGroup
	one.Go(f)
	one.Wait()
}
