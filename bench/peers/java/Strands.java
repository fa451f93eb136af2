import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;

/** The kind of thread that runs a task. */
enum Strands {
    VIRTUAL, PLATFORM;

    static Optional<Strands> named(String name) {
        return switch (name) {
            case "virtual" -> Optional.of(VIRTUAL);
            case "platform" -> Optional.of(PLATFORM);
            default -> Optional.empty();
        };
    }

    /** A task that runs; {@code join} returns its result. */
    record Running<T>(Thread thread, FutureTask<T> task) {
        T join() throws Exception {
            thread.join();
            return task.get();
        }
    }

    <T> Running<T> start(Callable<T> body) {
        var task = new FutureTask<>(body);
        var builder = this == VIRTUAL ? Thread.ofVirtual() : Thread.ofPlatform();
        return new Running<>(builder.start(task), task);
    }

    /** Lets other virtual threads run. The kernel preempts platform threads, so they do not yield. */
    void yieldIfCooperative() {
        if (this == VIRTUAL) {
            Thread.yield();
        }
    }
}
