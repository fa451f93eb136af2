package main

import (
	"fmt"
	"sync"
	"time"
)

// Sleeps.
func byTimer() waits {
	open := func(strands int, wait time.Duration) ([]waiter, error) {
		sleep := func(uint64) error {
			time.Sleep(wait)
			return nil
		}
		all := make([]waiter, strands)
		for i := range all {
			all[i] = sleep
		}
		return all, nil
	}
	return waits{open, func(int) error { return nil }}
}

// A lock that only a strand and its holder take. A wait is a hand-over: the strand asks its holder,
// which takes the lock, reports that, and keeps the lock for the time; meanwhile the strand waits
// for the lock.
type handover struct {
	lock  sync.Mutex
	holds int
	asks  chan struct{}
	held  chan struct{}
}

func byLock() waits {
	var pairs []*handover
	var holders sync.WaitGroup
	open := func(strands int, wait time.Duration) ([]waiter, error) {
		all := make([]waiter, strands)
		for i := range all {
			pair := &handover{asks: make(chan struct{}), held: make(chan struct{})}
			pairs = append(pairs, pair)
			holders.Go(func() { pair.hold(wait) })
			all[i] = pair.waiter()
		}
		return all, nil
	}
	end := func(int) error {
		for _, pair := range pairs {
			close(pair.asks)
		}
		holders.Wait()
		return nil
	}
	return waits{open, end}
}

func (pair *handover) hold(wait time.Duration) {
	for range pair.asks {
		pair.lock.Lock()
		pair.held <- struct{}{}
		time.Sleep(wait)
		pair.holds++
		pair.lock.Unlock()
	}
}

func (pair *handover) waiter() waiter {
	waits := 0
	return func(uint64) error {
		waits++
		pair.asks <- struct{}{}
		<-pair.held
		pair.lock.Lock()
		defer pair.lock.Unlock()
		if pair.holds != waits {
			return fmt.Errorf("wait %d saw hold %d", waits, pair.holds)
		}
		return nil
	}
}
