import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Pipe;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.util.ArrayList;

/** The workloads with I/O. */
final class Transfers {
    record Ends(ReadableByteChannel reader, WritableByteChannel writer) {}

    interface Opener {
        Ends open() throws IOException;
    }

    static Peer.Outcome pipe(Strands strands, int[] n) throws Exception {
        return transfer(strands, n, () -> {
            var pipe = Pipe.open();
            return new Ends(pipe.source(), pipe.sink());
        });
    }

    /** Java has no socketpair(2), so each pair is a connection to a Unix socket. */
    static Peer.Outcome socketpair(Strands strands, int[] n) throws Exception {
        var directory = Files.createTempDirectory("ramie-peer");
        var path = directory.resolve("socket");
        try (var listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            var address = UnixDomainSocketAddress.of(path);
            listener.bind(address);
            return transfer(strands, n, () -> {
                var writer = SocketChannel.open(address);
                return new Ends(listener.accept(), writer);
            });
        } finally {
            Files.deleteIfExists(path);
            Files.delete(directory);
        }
    }

    private static Peer.Outcome transfer(Strands strands, int[] n, Opener opener)
            throws Exception {
        int messages = n[1];
        int size = n[2];
        var running = new ArrayList<Strands.Running<Void>>(2 * n[0]);
        for (int i = 0; i < n[0]; i++) {
            int pair = i;
            var ends = opener.open();
            running.add(strands.start(() -> write(ends.writer(), pair, messages, size)));
            running.add(strands.start(() -> read(ends.reader(), pair, messages, size)));
        }
        for (var each : running) {
            each.join();
        }
        return new Peer.Outcome((long) n[0] * messages);
    }

    /** A message begins with its number; the rest is a pattern of the pair. */
    private static ByteBuffer message(int pair, int size) {
        var message = ByteBuffer.allocateDirect(size).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < size; i++) {
            message.put(i, (byte) (i * 31 + pair * 7));
        }
        return message;
    }

    private static void stamp(ByteBuffer message, long number) {
        for (int i = 0; i < Math.min(8, message.capacity()); i++) {
            message.put(i, (byte) (number >>> 8 * i));
        }
    }

    private static Void write(WritableByteChannel writer, int pair, int messages, int size)
            throws IOException {
        try (writer) {
            var message = message(pair, size);
            for (int number = 0; number < messages; number++) {
                stamp(message, number);
                message.clear();
                while (message.hasRemaining()) {
                    writer.write(message);
                }
            }
        }
        return null;
    }

    private static Void read(ReadableByteChannel reader, int pair, int messages, int size)
            throws Exception {
        try (reader) {
            var wanted = message(pair, size);
            var got = ByteBuffer.allocateDirect(size);
            for (int number = 0; number < messages; number++) {
                got.clear();
                while (got.hasRemaining()) {
                    if (reader.read(got) < 0) {
                        throw new Peer.WrongResult("pair " + pair + " ended early");
                    }
                }
                stamp(wanted, number);
                wanted.clear();
                got.flip();
                if (wanted.mismatch(got) >= 0) {
                    throw new Peer.WrongResult(
                        "message " + number + " of pair " + pair + " has other bytes");
                }
            }
            got.clear();
            if (reader.read(got) >= 0) {
                throw new Peer.WrongResult("pair " + pair + " has more bytes than were written");
            }
        }
        return null;
    }
}
