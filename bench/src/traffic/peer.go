// The channel workloads in Go. Takes a workload's words, prints its nanoseconds.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

func number(at int) int {
	n, err := strconv.Atoi(os.Args[at])
	if err != nil {
		panic(err)
	}
	return n
}

func check(got, wanted int) {
	if got != wanted {
		panic(fmt.Sprintf("%d instead of %d", got, wanted))
	}
}

// Go has no unbounded channel: one with room for all values stands in.
func channel(capacity, senders, receivers, count int) {
	if capacity == 0 {
		capacity = count
	}
	values := make(chan int, capacity)
	var sending, receiving sync.WaitGroup
	counts, sums := make([]int, receivers), make([]int, receivers)
	for i := range receivers {
		receiving.Go(func() {
			n, sum := 0, 0
			for value := range values {
				n++
				sum += value
			}
			counts[i], sums[i] = n, sum
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
	n, sum := 0, 0
	for i := range receivers {
		n += counts[i]
		sum += sums[i]
	}
	check(n, count)
	check(sum, count*(count-1)/2)
}

func ring(size, hops int) {
	places := make([]chan int, size)
	for i := range places {
		places[i] = make(chan int, 1)
	}
	mades := make([]int, size)
	var running sync.WaitGroup
	for i := range places {
		running.Go(func() {
			inbox, next := places[i], places[(i+1)%size]
			made := 0
			for {
				token := <-inbox
				if token > hops {
					mades[i] = made
					next <- token
					return
				}
				made++
				next <- token + 1
			}
		})
	}
	places[0] <- 1
	running.Wait()
	total := 0
	for _, made := range mades {
		total += made
	}
	check(total, hops)
}

func main() {
	start := time.Now()
	switch os.Args[1] {
	case "channel":
		channel(number(2), number(3), number(4), number(5))
	case "ring-channel":
		ring(number(2), number(3))
	default:
		panic("not a workload of this program")
	}
	fmt.Println(time.Since(start).Nanoseconds())
}
