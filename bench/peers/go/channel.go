package main

import (
	"errors"
	"sync"
)

// Go has no unbounded channel; one with room for all values replaces it.
func channel(n []int) outcome {
	capacity, senders, receivers, count := n[0], n[1], n[2], n[3]
	if capacity == 0 {
		capacity = count
	}
	values := make(chan int, capacity)
	var sending, receiving sync.WaitGroup
	counts, sums := make([]int, receivers), make([]int, receivers)
	for i := range receivers {
		receiving.Go(func() {
			count, sum := 0, 0
			for value := range values {
				count++
				sum += value
			}
			counts[i], sums[i] = count, sum
		})
	}
	for first := range senders {
		sending.Go(func() {
			for value := first; value < count; value += senders {
				values <- value
			}
		})
	}
	sending.Wait()
	close(values)
	receiving.Wait()
	total, sum := 0, 0
	for i := range receivers {
		total += counts[i]
		sum += sums[i]
	}
	err := errors.Join(check("the number of values", total, count),
		check("their sum", sum, count*(count-1)/2))
	return outcome{ops: count, err: err}
}
