"""Finds the strands of a program that uses Ramie in the memory that a debugger reads.

`ramie.py` and `ramie_lldb.py` hand over their debugger as an object with these methods:

    read(address, length)   the bytes there; raises Unreadable
    symbol(address)         the name of the function at an address, or ""

Nothing is called in the program, and nothing is changed. x86-64 only.
"""

import re
import struct

# The section that the program has for debuggers.
SECTION = ".ramie_debugger"
MAGIC = b"RamieDb1"
# As in crates/ramie/src/core/strand/debugger.rs.
NUMBERS = (
    "header_bytes", "chunk_headers", "chunks", "word", "stack", "table", "attributes", "run",
    "fiber_stack_bytes", "stack_header", "coroutine", "coroutine_bytes", "record", "stack_size",
    "kind", "location", "is_plain", "kind_name", "name",
)
# Bits of the wait word of a header.
STATE, WAITING = 0b111, 1
IS_THREAD = 1 << 63
# Saved by the switch: the address to continue at, rbx and rbp.
SAVED = struct.Struct("<QQQ")
# The first frame of each coroutine, which the switch library sets up.
ROOT = "stack_init_trampoline"


class Unreadable(Exception):
    """Memory that the debugger cannot read."""


class Refusal(Exception):
    """A sentence for the user."""


class Layout:
    """The places of the strands, as the program describes them."""

    def __init__(self, debugger, address):
        self.debugger = debugger
        content = debugger.read(address, 24 + 8 * len(NUMBERS))
        if not content.startswith(MAGIC):
            found = content[:8].decode(errors="replace")
            raise Refusal(f"this program needs the script of its own version ({found})")
        self.first_chunk, self.sample = struct.unpack("<QQ", content[8:24])
        numbers = struct.unpack(f"<{len(NUMBERS)}Q", content[24:])
        for name, number in zip(NUMBERS, numbers):
            setattr(self, name, number)
        sample = self.read_location(self.sample)
        self.can_read_locations = sample.startswith("crates/") or "debugger.rs:" in sample

    def word_at(self, address):
        return struct.unpack("<Q", self.debugger.read(address, 8))[0]

    def text_at(self, address):
        """Reads a `&str`, which lies at an address."""
        start, length = struct.unpack("<QQ", self.debugger.read(address, 16))
        if length > 4096:
            raise ValueError("this is not a text")
        return self.debugger.read(start, length).decode(errors="replace")

    def read_location(self, address):
        try:
            file = self.text_at(address)
            line, column = struct.unpack("<II", self.debugger.read(address + 16, 8))
            return f"{file}:{line}:{column}"
        except (Unreadable, ValueError):
            return "?"

    def place_at(self, address):
        return self.read_location(address) if self.can_read_locations else "?"

    def strands(self):
        """All strands, by their indices."""
        for chunk in range(self.chunks):
            start = self.word_at(self.first_chunk + 8 * chunk)
            if start == 0:
                return
            size = self.header_bytes
            headers = self.debugger.read(start, size * self.chunk_headers)
            # The first header of a chunk is its head.
            for place in range(1, self.chunk_headers):
                header = headers[place * size:(place + 1) * size]
                index = chunk * self.chunk_headers + place
                strand = Strand(self, index, start + place * size, header)
                if strand.is_alive():
                    yield strand

    def find(self, wanted, threads):
        """The suspended fiber of this id, and all fibers that have started."""
        alive = [strand for strand in self.strands() if strand.is_started]
        strand = next((strand for strand in alive if strand.id == wanted), None)
        if strand is None:
            wanted = wanted or "without an id"
            raise Refusal(f"no strand {wanted} has started; see ramie fibers")
        if strand.is_thread:
            raise Refusal(f"strand {wanted} is a thread; see the list of threads")
        thread = strand.runs_on(threads)
        if thread and not strand.record():
            raise Refusal(f"fiber {wanted} runs; look at thread {thread}")
        return strand, [other for other in alive if not other.is_thread]

    def saved_registers(self, strand, fibers):
        """The registers with which a suspended fiber will continue."""
        sp = strand.coroutine_words()[index_of_saved_sp(fibers)]
        rip, rbx, rbp = SAVED.unpack(self.debugger.read(sp, SAVED.size))
        return {"rip": rip, "rsp": sp + SAVED.size, "rbp": rbp, "rbx": rbx}


class Strand:
    """A strand, by its header."""

    def __init__(self, layout, index, address, header):
        def field(offset):
            return struct.unpack_from("<Q", header, offset)[0]

        self.layout = layout
        self.address = address
        self.wait_word = field(layout.word)
        self.stack = field(layout.stack)
        self.run = field(layout.table)
        self.attributes = field(layout.attributes)
        generation = self.wait_word >> 32 & 0x7FFFFFFF
        self.id = f"{index}.{generation}"
        self.is_thread = bool(self.wait_word & IS_THREAD)
        self.is_started = self.stack & 1 == 0
        self.content = b""

    def is_alive(self):
        """Whether the header belongs to a strand; reads its stack."""
        if self.stack == 0:
            return False
        if not self.is_started:
            return True
        try:
            self.content = self.layout.debugger.read(self.stack, self.layout.fiber_stack_bytes)
        except Unreadable:
            # The stack has been given back.
            return False
        return self.of_stack(self.layout.stack_header) == self.address

    def of_stack(self, offset):
        return struct.unpack_from("<Q", self.content, offset)[0]

    def name(self):
        """The name, from a `String`: its three words are an address, a capacity and a length."""
        if not self.attributes & 1:
            return ""
        read = self.layout.debugger.read
        try:
            words = struct.unpack("<QQQ", read(self.attributes - 1 + self.layout.name, 24))
            length, capacity, start = sorted(words)
            if capacity > 4096 or start >> 63:
                return ""
            name = read(start, length).decode(errors="replace")
            # It might control the terminal.
            return "".join(c if c.isprintable() else "\ufffd" for c in name)
        except Unreadable:
            return ""

    def closure(self):
        """The closure, by the symbol of the function that runs it."""
        try:
            run = self.layout.word_at(self.run + self.layout.run)
        except Unreadable:
            return ""
        symbol = self.layout.debugger.symbol(run)
        found = re.search(r"__rust_begin_short_backtrace<(.*), .*?>(?:::h[0-9a-f]+)?$", symbol)
        return found[1] if found else ""

    def record(self):
        """The address of the record of the wait, or 0."""
        record = self.of_stack(self.layout.record)
        if record == 0:
            return 0
        is_plain = self.layout.debugger.read(record + self.layout.is_plain, 1) != b"\0"
        return record if is_plain or self.wait_word & STATE == WAITING else 0

    def bounds(self):
        """The part of the stack below the data of the fiber."""
        return self.stack - self.of_stack(self.layout.stack_size), self.stack

    def runs_on(self, threads):
        """The number of the thread whose stack pointer, in pairs with numbers, is in the stack."""
        low, high = self.bounds()
        return next((number for number, sp in threads if low <= sp < high), None)

    def coroutine_words(self):
        start = self.layout.coroutine
        return struct.unpack_from(f"<{self.layout.coroutine_bytes // 8}Q", self.content, start)

    def state(self, threads):
        layout = self.layout
        if not self.is_started:
            return "has not started", layout.place_at(self.stack - 1)
        record = self.record()
        if record:
            kind = layout.word_at(record + layout.kind)
            place = layout.place_at(layout.word_at(record + layout.location))
            return f"waits for {layout.text_at(kind + layout.kind_name)}", place
        if self.is_thread:
            return "runs", ""
        thread = self.runs_on(threads)
        return (f"runs on thread {thread}" if thread else "waits for its turn"), ""

    def line(self, threads):
        """The line of the list of strands: id, name, state, the place of the wait, closure."""
        kind = "thread" if self.is_thread else "fiber"
        name = self.name()
        state, place = self.state(threads)
        parts = [f"{self.id:>8}  {kind}" + (f" '{name}'" if name else ""), state]
        parts += [f"at {place}"] if place else []
        parts += [f"({self.closure()})"] if self.closure() else []
        return "  ".join(parts)


def index_of_saved_sp(fibers):
    """The word of a coroutine that is its saved stack pointer.

    Two words point into the stack: that pointer, and the one of the start, which is higher. The
    pointer of a fiber that has suspended inside another coroutine points into that one's stack, so
    the word is found by the other fibers.
    """
    for fiber in fibers:
        low, high = fiber.bounds()
        inside = [(word, at) for at, word in enumerate(fiber.coroutine_words()) if low < word < high]
        if len(inside) == 2 and inside[0][0] != inside[1][0]:
            return min(inside)[1]
    raise Refusal("no fiber has suspended yet")
