// The workloads in C++ on Boost.Fiber: a fiber for each task. Boost.Fiber has no I/O of its own, so
// `pipe` and `socketpair` are missing.
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <boost/fiber/all.hpp>

namespace fibers = boost::fibers;
using numbers = std::vector<std::uint64_t>;

// What a run has done, beside the time that it took; an `rss_kb` of 0 was not measured.
struct outcome {
    std::uint64_t ops;
    std::uint64_t rss_kb = 0;
};

struct usage_error : std::runtime_error {
    using runtime_error::runtime_error;
};

static void check(const char* what, std::uint64_t got, std::uint64_t wanted) {
    if (got != wanted) {
        throw std::runtime_error(std::string(what) + " is " + std::to_string(got) + ", not " +
                                 std::to_string(wanted));
    }
}

template <typename F>
static void join_all(std::uint64_t count, F body) {
    std::vector<fibers::fiber> running;
    running.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        running.emplace_back([&body, i] { body(i); });
    }
    for (auto& fiber : running) {
        fiber.join();
    }
}

static outcome feed(const numbers& n) {
    struct person {
        std::uint32_t iron = 0, calcium = 0, fiber = 0;
    };
    std::vector<person> people(n[0]);
    join_all(n[0], [&](std::uint64_t i) {
        for (std::uint64_t fed = 0; fed < n[1]; ++fed) {
            ++people[i].iron;
            ++people[i].calcium;
            ++people[i].fiber;
            boost::this_fiber::yield();
        }
    });
    for (const auto& person : people) {
        for (auto counter : {person.iron, person.calcium, person.fiber}) {
            check("a counter", counter, n[1]);
        }
    }
    return {n[0] * n[1]};
}

// A token goes round until it has made all hops; then a larger one ends the fibers. A buffered
// channel of Boost.Fiber holds one value less than its capacity, which is a power of two.
static outcome ring(const numbers& n) {
    using inbox = fibers::buffered_channel<std::uint64_t>;
    const auto size = n[0], hops = n[1];
    std::vector<std::unique_ptr<inbox>> inboxes;
    for (std::uint64_t i = 0; i < size; ++i) {
        inboxes.push_back(std::make_unique<inbox>(2));
    }
    std::vector<std::uint64_t> made(size);
    inboxes[0]->push(1);
    join_all(size, [&](std::uint64_t i) {
        auto& next = *inboxes[(i + 1) % size];
        std::uint64_t hops_made = 0;
        for (;;) {
            std::uint64_t token = 0;
            inboxes[i]->pop(token);
            if (token > hops) {
                made[i] = hops_made;
                next.push(token);
                return;
            }
            ++hops_made;
            next.push(token + 1);
        }
    });
    std::uint64_t total = 0;
    for (auto hops_made : made) {
        total += hops_made;
    }
    check("the number of hops", total, hops);
    return {hops};
}

static outcome spawn(const numbers& n) {
    std::atomic<std::uint64_t> counter{0};
    join_all(n[0], [&](std::uint64_t) { ++counter; });
    check("the counter", counter, n[0]);
    return {n[0]};
}

static std::uint64_t resident_kb() {
    std::uint64_t size = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> size >> resident;
    return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

// The last fiber that arrives reads the memory and sets the event.
static outcome alive(const numbers& n) {
    fibers::mutex mutex;
    fibers::condition_variable event;
    std::uint64_t arrived = 0, passed = 0, rss_kb = 0;
    const auto before = resident_kb();
    join_all(n[0], [&](std::uint64_t) {
        std::unique_lock lock(mutex);
        if (++arrived == n[0]) {
            rss_kb = resident_kb() - before;
            event.notify_all();
        }
        event.wait(lock, [&] { return arrived == n[0]; });
        ++passed;
    });
    check("the number of fibers that passed", passed, n[0]);
    return {n[0], rss_kb};
}

static outcome switches(const numbers& n) {
    std::atomic<std::uint64_t> yields{0};
    join_all(2, [&](std::uint64_t) {
        for (std::uint64_t i = 0; i < n[0]; ++i) {
            boost::this_fiber::yield();
        }
        yields += n[0];
    });
    check("the number of yields", yields, 2 * n[0]);
    return {2 * n[0]};
}

constexpr std::uint64_t rounds = 15'000, rounds_of_all_levels = 1'500;

static outcome basic(const numbers& n) {
    std::uint64_t calls = 0;
    join_all(1, [&](std::uint64_t) {
        for (; calls < rounds * n[0]; ++calls) {
            boost::this_fiber::yield();
        }
    });
    check("the number of calls", calls, rounds * n[0]);
    return {calls};
}

// Keeps the optimizer from turning a recursion into a loop.
static std::uint64_t kept(std::uint64_t value) {
    asm volatile("" : "+r"(value));
    return value;
}

[[gnu::noinline]] static std::uint64_t down(std::uint64_t depth) {
    if (depth == 0) {
        boost::this_fiber::yield();
        return 0;
    }
    return kept(down(depth - 1)) + depth;
}

[[gnu::noinline]] static std::uint64_t down_yielding(std::uint64_t depth) {
    boost::this_fiber::yield();
    return depth == 0 ? 0 : kept(down_yielding(depth - 1)) + depth;
}

// A recursion needs about 64 bytes of stack for each level.
static std::uint64_t sum_of(std::uint64_t times, std::uint64_t depth,
                            std::uint64_t (*recursion)(std::uint64_t)) {
    std::uint64_t sum = 0;
    fibers::fiber(std::allocator_arg, fibers::fixedsize_stack(depth * 128 + 64 * 1024), [&] {
        for (std::uint64_t round = 0; round < times; ++round) {
            sum += recursion(depth);
        }
    }).join();
    check("the sum", sum, times * depth * (depth + 1) / 2);
    return sum;
}

static outcome recurse(const numbers& n) {
    sum_of(rounds, n[0], down);
    return {rounds};
}

static outcome recurse2(const numbers& n) {
    sum_of(rounds_of_all_levels, n[0], down_yielding);
    return {rounds_of_all_levels * n[0]};
}

struct workload {
    std::string name;
    std::vector<std::string> names;
    outcome (*run)(const numbers&);
};

static const std::vector<workload> workloads = {
    {"feed", {"people", "nutrients"}, feed},
    {"ring", {"size", "hops"}, ring},
    {"spawn", {"count"}, spawn},
    {"alive", {"count"}, alive},
    {"switch", {"count"}, switches},
    {"basic", {"yields"}, basic},
    {"recurse", {"depth"}, recurse},
    {"recurse2", {"depth"}, recurse2},
};

static std::uint64_t number(const std::string& name, const std::string& word) {
    std::uint32_t value = 0;
    const auto* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || rest != end || value == 0) {
        throw usage_error(name + " is \"" + word + "\", which is no whole number of 1 or more");
    }
    return value;
}

// Runs `body` with threads that share the fibers; with one thread, its own queue suffices.
static void with_threads(std::uint64_t threads, const std::function<void()>& body) {
    if (threads == 1) {
        return body();
    }
    fibers::use_scheduling_algorithm<fibers::algo::shared_work>(true);
    fibers::mutex mutex;
    fibers::condition_variable_any ended;
    bool is_ended = false;
    std::vector<std::thread> others;
    for (std::uint64_t i = 1; i < threads; ++i) {
        others.emplace_back([&] {
            fibers::use_scheduling_algorithm<fibers::algo::shared_work>(true);
            std::unique_lock lock(mutex);
            ended.wait(lock, [&] { return is_ended; });
        });
    }
    const auto end = [&] {
        {
            std::unique_lock lock(mutex);
            is_ended = true;
        }
        ended.notify_all();
        for (auto& thread : others) {
            thread.join();
        }
    };
    try {
        body();
    } catch (...) {
        end();
        throw;
    }
    end();
}

static void measure(std::vector<std::string> words) {
    std::uint64_t threads = 1;
    if (words.size() >= 2 && words[0] == "--threads") {
        threads = number(words[0], words[1]);
        words.erase(words.begin(), words.begin() + 2);
    }
    if (words.empty()) {
        throw usage_error("no workload is given");
    }
    for (const auto& workload : workloads) {
        if (workload.name != words[0]) {
            continue;
        }
        if (words.size() - 1 != workload.names.size()) {
            throw usage_error(workload.name + " takes " + std::to_string(workload.names.size()) +
                              " numbers, not " + std::to_string(words.size() - 1));
        }
        numbers n;
        std::string line = workload.name;
        for (std::size_t i = 0; i < workload.names.size(); ++i) {
            n.push_back(number(workload.names[i], words[i + 1]));
            line += " " + words[i + 1];
        }
        with_threads(threads, [&] {
            const auto start = std::chrono::steady_clock::now();
            const auto result = workload.run(n);
            const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
            const auto per_op_ns = time.count() * 1e9 / static_cast<double>(result.ops);
            std::printf("%s seconds=%.9f per_op_ns=%.2f", line.c_str(), time.count(), per_op_ns);
            std::printf(result.rss_kb == 0 ? "\n" : " rss_kb=%lu\n", result.rss_kb);
        });
        return;
    }
    throw usage_error("there is no workload \"" + words[0] + '"');
}

int main(int count, char** words) {
    try {
        measure({words + 1, words + count});
        return 0;
    } catch (const usage_error& error) {
        std::cerr << error.what() << "\nUsage: peer [--threads T] WORKLOAD NUMBERS\n";
        for (const auto& workload : workloads) {
            std::cerr << "  " << workload.name;
            for (const auto& name : workload.names) {
                std::cerr << ' ' << name;
            }
            std::cerr << '\n';
        }
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "the workload went wrong: " << error.what() << '\n';
        return 1;
    }
}
