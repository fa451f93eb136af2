import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** The workloads without I/O. */
final class Tasks {
    private static final int ROUNDS = 15_000;
    private static final int ROUNDS_OF_ALL_LEVELS = 1_500;

    private static final class Person {
        int iron;
        int calcium;
        int fiber;
    }

    static Peer.Outcome feed(Strands strands, int[] n) throws Exception {
        int nutrients = n[1];
        var running = new ArrayList<Strands.Running<Person>>(n[0]);
        for (int i = 0; i < n[0]; i++) {
            running.add(strands.start(() -> {
                var person = new Person();
                for (int fed = 0; fed < nutrients; fed++) {
                    person.iron++;
                    person.calcium++;
                    person.fiber++;
                    strands.yieldIfCooperative();
                }
                return person;
            }));
        }
        for (var each : running) {
            var person = each.join();
            for (int counter : List.of(person.iron, person.calcium, person.fiber)) {
                Peer.check("a counter", counter, nutrients);
            }
        }
        return new Peer.Outcome((long) n[0] * nutrients);
    }

    /** A token goes round until it has made all hops; then a larger one ends the threads. */
    static Peer.Outcome ring(Strands strands, int[] n) throws Exception {
        int size = n[0];
        int hops = n[1];
        var inboxes = new ArrayList<ArrayBlockingQueue<Integer>>(size);
        for (int i = 0; i < size; i++) {
            inboxes.add(new ArrayBlockingQueue<>(1));
        }
        var running = new ArrayList<Strands.Running<Integer>>(size);
        for (int i = 0; i < size; i++) {
            var inbox = inboxes.get(i);
            var next = inboxes.get((i + 1) % size);
            running.add(strands.start(() -> {
                for (int made = 0;; made++) {
                    int token = inbox.take();
                    next.put(token > hops ? token : token + 1);
                    if (token > hops) {
                        return made;
                    }
                }
            }));
        }
        inboxes.getFirst().put(1);
        long total = 0;
        for (var each : running) {
            total += each.join();
        }
        Peer.check("the number of hops", total, hops);
        return new Peer.Outcome(hops);
    }

    static Peer.Outcome spawn(Strands strands, int[] n) throws Exception {
        var counter = new AtomicInteger();
        joinAll(strands, n[0], counter::incrementAndGet);
        Peer.check("the counter", counter.get(), n[0]);
        return new Peer.Outcome(n[0]);
    }

    static Peer.Outcome alive(Strands strands, int[] n) throws Exception {
        long before = residentKb();
        var arrived = new CountDownLatch(n[0]);
        var event = new CountDownLatch(1);
        var passed = new AtomicInteger();
        var running = new ArrayList<Strands.Running<Integer>>(n[0]);
        try {
            for (int i = 0; i < n[0]; i++) {
                running.add(strands.start(() -> {
                    arrived.countDown();
                    event.await();
                    return passed.incrementAndGet();
                }));
            }
            arrived.await();
        } catch (OutOfMemoryError error) {
            event.countDown();
            throw new Peer.WrongResult("only " + running.size() + " of " + n[0]
                + " threads could be started (" + error.getMessage() + ")");
        }
        long rssKb = residentKb() - before;
        event.countDown();
        for (var each : running) {
            each.join();
        }
        Peer.check("the number of threads that passed", passed.get(), n[0]);
        return new Peer.Outcome(n[0], rssKb);
    }

    private static long residentKb() throws Exception {
        for (var line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        return 0;
    }

    static Peer.Outcome switches(Strands strands, int[] n) throws Exception {
        var yields = new AtomicInteger();
        joinAll(strands, 2, () -> {
            for (int i = 0; i < n[0]; i++) {
                Thread.yield();
            }
            return yields.addAndGet(n[0]);
        });
        Peer.check("the number of yields", yields.get(), 2L * n[0]);
        return new Peer.Outcome(2L * n[0]);
    }

    static Peer.Outcome basic(Strands strands, int[] n) throws Exception {
        long calls = (long) ROUNDS * n[0];
        long made = strands.start(() -> {
            long count = 0;
            for (; count < calls; count++) {
                Thread.yield();
            }
            return count;
        }).join();
        Peer.check("the number of calls", made, calls);
        return new Peer.Outcome(calls);
    }

    static Peer.Outcome recurse(Strands strands, int[] n) throws Exception {
        return recursion(strands, n[0], ROUNDS, ROUNDS, () -> down(n[0]));
    }

    static Peer.Outcome recurse2(Strands strands, int[] n) throws Exception {
        long ops = (long) ROUNDS_OF_ALL_LEVELS * n[0];
        return recursion(strands, n[0], ROUNDS_OF_ALL_LEVELS, ops, () -> downYielding(n[0]));
    }

    private static Peer.Outcome recursion(
            Strands strands, long depth, int rounds, long ops, Callable<Long> once) throws Exception {
        long sum = strands.start(() -> {
            long all = 0;
            for (int round = 0; round < rounds; round++) {
                all += once.call();
            }
            return all;
        }).join();
        Peer.check("the sum", sum, rounds * depth * (depth + 1) / 2);
        return new Peer.Outcome(ops);
    }

    private static long down(long depth) {
        if (depth == 0) {
            Thread.yield();
            return 0;
        }
        return down(depth - 1) + depth;
    }

    private static long downYielding(long depth) {
        Thread.yield();
        return depth == 0 ? 0 : downYielding(depth - 1) + depth;
    }

    private static void joinAll(Strands strands, int count, Callable<Integer> body)
            throws Exception {
        var running = new ArrayList<Strands.Running<Integer>>(count);
        for (int i = 0; i < count; i++) {
            running.add(strands.start(body));
        }
        for (var each : running) {
            each.join();
        }
    }
}
