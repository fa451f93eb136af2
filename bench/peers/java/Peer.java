import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** The workloads in Java: a virtual or a platform thread for each task. */
final class Peer {
    /** What a run has done, beside the time that it took; a {@code rssKb} of 0 was not measured. */
    record Outcome(long ops, long rssKb) {
        Outcome(long ops) {
            this(ops, 0);
        }
    }

    /** The result of a workload is wrong. */
    static final class WrongResult extends Exception {
        WrongResult(String what) {
            super(what);
        }
    }

    interface Run {
        Outcome run(Strands strands, int[] n) throws Exception;
    }

    record Workload(String name, List<String> numbers, Run run) {}

    private static final List<Workload> WORKLOADS = List.of(
        new Workload("feed", List.of("people", "nutrients"), Tasks::feed),
        new Workload("ring", List.of("size", "hops"), Tasks::ring),
        new Workload("spawn", List.of("count"), Tasks::spawn),
        new Workload("alive", List.of("count"), Tasks::alive),
        new Workload("switch", List.of("count"), Tasks::switches),
        new Workload("basic", List.of("yields"), Tasks::basic),
        new Workload("recurse", List.of("depth"), Tasks::recurse),
        new Workload("recurse2", List.of("depth"), Tasks::recurse2),
        new Workload("pipe", List.of("pairs", "messages", "bytes"), Transfers::pipe),
        new Workload("socketpair", List.of("pairs", "messages", "bytes"), Transfers::socketpair));

    private static final class UsageError extends RuntimeException {
        UsageError(String why) {
            super(why);
        }
    }

    public static void main(String[] words) {
        try {
            measure(words);
        } catch (UsageError error) {
            System.err.println(error.getMessage());
            System.err.println("Usage: peer [--on virtual|platform] [--threads T] WORKLOAD NUMBERS");
            for (var workload : WORKLOADS) {
                var numbers = String.join(" ", workload.numbers()).toUpperCase(Locale.ROOT);
                System.err.println("  " + workload.name() + " " + numbers);
            }
            System.exit(2);
        } catch (Exception | OutOfMemoryError error) {
            System.err.println("the workload went wrong: " + error);
            System.exit(1);
        }
    }

    private static void measure(String[] words) throws Exception {
        var strands = Strands.VIRTUAL;
        int at = 0;
        while (at + 1 < words.length && words[at].startsWith("--")) {
            switch (words[at]) {
                case "--on" -> strands = Strands.named(words[at + 1]).orElseThrow(
                    () -> new UsageError("--on is virtual or platform"));
                // Read when the first virtual thread starts.
                case "--threads" -> System.setProperty("jdk.virtualThreadScheduler.parallelism",
                    Integer.toString(number("--threads", words[at + 1])));
                default -> throw new UsageError("there is no option " + words[at]);
            }
            at += 2;
        }
        if (at == words.length) {
            throw new UsageError("no workload is given");
        }
        String name = words[at];
        var workload = WORKLOADS.stream().filter(each -> each.name().equals(name)).findFirst()
            .orElseThrow(() -> new UsageError("there is no workload \"" + name + '"'));
        var given = Arrays.copyOfRange(words, at + 1, words.length);
        if (given.length != workload.numbers().size()) {
            throw new UsageError(
                name + " takes " + workload.numbers().size() + " numbers, not " + given.length);
        }
        var numbers = new int[given.length];
        for (int i = 0; i < given.length; i++) {
            numbers[i] = number(workload.numbers().get(i), given[i]);
        }
        long start = System.nanoTime();
        var outcome = workload.run().run(strands, numbers);
        double ns = System.nanoTime() - start;
        var line = String.format(Locale.ROOT, "%s %s seconds=%.9f per_op_ns=%.2f", name,
            String.join(" ", given), ns / 1e9, ns / outcome.ops());
        System.out.println(outcome.rssKb() == 0 ? line : line + " rss_kb=" + outcome.rssKb());
    }

    private static int number(String name, String word) {
        try {
            int number = Integer.parseInt(word);
            if (number >= 1) {
                return number;
            }
        } catch (NumberFormatException ignored) {
            // Refused below.
        }
        throw new UsageError(name + " is \"" + word + "\", which is no whole number of 1 or more");
    }

    static void check(String what, long got, long wanted) throws WrongResult {
        if (got != wanted) {
            throw new WrongResult(what + " is " + got + ", not " + wanted);
        }
    }
}
