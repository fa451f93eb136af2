"""Shows the fibers of a program that uses Ramie in gdb, in a live process or a core file.

    gdb -x tools/debugger/ramie.py -p PID
    gdb -x tools/debugger/ramie.py PROGRAM CORE

    ramie fibers       lists all strands, with their waits
    ramie fiber ID     shows the stack of a fiber; bt, up, down, frame and info locals follow it
    ramie thread       goes back to the stack of the thread

The script only reads memory: it calls no function of the program and changes no register. Frame 0
remains that of the thread; the frames of the fiber begin at 1. x86-64 only.
"""

import re
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

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


def read(address, length):
    return gdb.selected_inferior().read_memory(address, length).tobytes()


def word_at(address):
    return struct.unpack("<Q", read(address, 8))[0]


def text_at(address):
    """Reads a `&str`, which lies at an address."""
    start, length = struct.unpack("<QQ", read(address, 16))
    if length > 4096:
        raise ValueError("this is not a text")
    return read(start, length).decode(errors="replace")


def registers():
    """The instruction and the stack pointer of the selected thread."""
    frame = gdb.newest_frame()
    return int(frame.read_register("rip")), int(frame.read_register("rsp"))


class Layout:
    """The places of the strands, as the program describes them."""

    def __init__(self, address):
        content = read(address, 24 + 8 * len(NUMBERS))
        if not content.startswith(MAGIC):
            found = content[:8].decode(errors="replace")
            raise gdb.GdbError(f"this program needs the script of its own version ({found})")
        self.first_chunk, self.sample = struct.unpack("<QQ", content[8:24])
        numbers = struct.unpack(f"<{len(NUMBERS)}Q", content[24:])
        for name, number in zip(NUMBERS, numbers):
            setattr(self, name, number)
        self.can_read_locations = self.read_location(self.sample).startswith("crates/") or (
            "debugger.rs:" in self.read_location(self.sample))

    @staticmethod
    def find():
        sections = gdb.execute("info files", to_string=True)
        found = re.search(r"(0x[0-9a-f]+) - 0x[0-9a-f]+ is \.ramie_debugger", sections)
        if not found:
            raise gdb.GdbError("there is no program that uses Ramie; load it with `file PROGRAM`")
        return Layout(int(found[1], 16))

    def read_location(self, address):
        try:
            file = text_at(address)
            line, column = struct.unpack("<II", read(address + 16, 8))
            return f"{file}:{line}:{column}"
        except (gdb.MemoryError, ValueError):
            return "?"

    def place_at(self, address):
        return self.read_location(address) if self.can_read_locations else "?"


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
            self.content = read(self.stack, self.layout.fiber_stack_bytes)
        except gdb.MemoryError:
            # The stack has been given back.
            return False
        return self.of_stack(self.layout.stack_header) == self.address

    def of_stack(self, offset):
        return struct.unpack_from("<Q", self.content, offset)[0]

    def name(self):
        """The name, from a `String`: its three words are an address, a capacity and a length."""
        if not self.attributes & 1:
            return ""
        try:
            words = struct.unpack("<QQQ", read(self.attributes - 1 + self.layout.name, 24))
            length, capacity, start = sorted(words)
            if capacity > 4096 or start >> 63:
                return ""
            return read(start, length).decode(errors="replace")
        except gdb.MemoryError:
            return ""

    def closure(self):
        """The closure, by the symbol of the function that runs it."""
        try:
            run = word_at(self.run + self.layout.run)
        except gdb.MemoryError:
            return ""
        symbol = gdb.execute(f"info symbol {run:#x}", to_string=True)
        found = re.search(r"__rust_begin_short_backtrace<(.*), .*?>(?:::h[0-9a-f]+)? in section", symbol)
        return found[1] if found else ""

    def record(self):
        """The address of the record of the wait, or 0."""
        record = self.of_stack(self.layout.record)
        if record == 0:
            return 0
        is_plain = read(record + self.layout.is_plain, 1) != b"\0"
        return record if is_plain or self.wait_word & STATE == WAITING else 0

    def bounds(self):
        """The part of the stack below the data of the fiber."""
        return self.stack - self.of_stack(self.layout.stack_size), self.stack

    def runs_on(self, threads):
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
            kind = word_at(record + layout.kind)
            place = layout.place_at(word_at(record + layout.location))
            return f"waits for {text_at(kind + layout.kind_name)}", place
        if self.is_thread:
            return "runs", ""
        thread = self.runs_on(threads)
        return (f"runs on thread {thread}" if thread else "waits for its turn"), ""


def thread_stacks():
    """The number and the stack pointer of each thread."""
    selected = gdb.selected_thread()
    stacks = []
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        stacks.append((thread.num, registers()[1]))
    if selected:
        selected.switch()
    return stacks


def strands(layout):
    """All strands, by their indices."""
    for chunk in range(layout.chunks):
        start = word_at(layout.first_chunk + 8 * chunk)
        if start == 0:
            return
        size = layout.header_bytes
        headers = read(start, size * layout.chunk_headers)
        # The first header of a chunk is its head.
        for place in range(1, layout.chunk_headers):
            header = headers[place * size:(place + 1) * size]
            index = chunk * layout.chunk_headers + place
            strand = Strand(layout, index, start + place * size, header)
            if strand.is_alive():
                yield strand


def index_of_saved_sp(layout, fibers):
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
    raise gdb.GdbError("no fiber has suspended yet")


class FiberUnwinder(Unwinder):
    """Continues from the frame of the thread to that of the selected fiber."""

    def __init__(self):
        super().__init__("ramie-fiber")
        self.clear()

    def clear(self):
        self.saved = None
        self.thread = None
        self.bounds = None

    def select(self, thread, saved, bounds):
        self.thread, self.saved, self.bounds = thread, saved, bounds

    def __call__(self, pending):
        if self.saved is None:
            return None
        rip = pending.read_register("rip")
        rsp = pending.read_register("rsp")
        here = int(rip), int(rsp)
        if here == self.thread:
            return self.unwind(pending, self.saved, int(self.saved["rsp"]) - 256, here[0])
        if self.bounds[0] <= here[1] <= self.bounds[1] + 4096:
            symbol = gdb.execute(f"info symbol {here[0]:#x}", to_string=True)
            if ROOT in symbol:
                # Behind it lie frames of the worker, from another time.
                return self.unwind(pending, {"rip": 0, "rsp": here[1] + 16}, here[1], here[0])
        return None

    @staticmethod
    def unwind(pending, saved, frame_sp, frame_pc):
        class FrameId:
            sp = gdb.Value(frame_sp)
            pc = gdb.Value(frame_pc)

        info = pending.create_unwind_info(FrameId())
        for register, value in saved.items():
            kind = pending.read_register(register).type
            info.add_saved_register(register, gdb.Value(value).cast(kind))
        return info


UNWINDER = FiberUnwinder()
register_unwinder(None, UNWINDER, replace=True)


def forget_fiber(*_):
    UNWINDER.clear()
    gdb.invalidate_cached_frames()


gdb.events.cont.connect(forget_fiber)
gdb.events.exited.connect(forget_fiber)


class RamieCommand(gdb.Command):
    """Shows the fibers of a program that uses Ramie."""

    def __init__(self):
        super().__init__("ramie", gdb.COMMAND_STACK, prefix=True)


class ListCommand(gdb.Command):
    """Lists all strands: id, name, state, the place of the wait, closure."""

    def __init__(self):
        super().__init__("ramie fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        forget_fiber()
        layout, threads = Layout.find(), thread_stacks()
        count = 0
        for strand in strands(layout):
            count += 1
            kind = "thread" if strand.is_thread else "fiber"
            name = strand.name()
            state, place = strand.state(threads)
            parts = [f"{strand.id:>8}  {kind}" + (f" '{name}'" if name else ""), state]
            parts += [f"at {place}"] if place else []
            parts += [f"({strand.closure()})"] if strand.closure() else []
            print("  ".join(parts))
        print(f"{count} strands")


class SelectCommand(gdb.Command):
    """Shows the stack of a fiber: ramie fiber ID."""

    def __init__(self):
        super().__init__("ramie fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        forget_fiber()
        layout = Layout.find()
        wanted = argument.strip()
        alive = [strand for strand in strands(layout) if strand.is_started]
        strand = next((strand for strand in alive if strand.id == wanted), None)
        if strand is None:
            raise gdb.GdbError(f"no strand {wanted or 'without an id'} has started; see ramie fibers")
        if strand.is_thread:
            raise gdb.GdbError(f"strand {wanted} is a thread; see info threads")
        thread = strand.runs_on(thread_stacks())
        if thread and not strand.record():
            raise gdb.GdbError(f"fiber {wanted} runs; use `thread {thread}` and bt")
        fibers = [other for other in alive if not other.is_thread]
        sp = strand.coroutine_words()[index_of_saved_sp(layout, fibers)]
        rip, rbx, rbp = SAVED.unpack(read(sp, SAVED.size))
        saved = {"rip": rip, "rsp": sp + SAVED.size, "rbp": rbp, "rbx": rbx}
        UNWINDER.select(registers(), saved, strand.bounds())
        gdb.invalidate_cached_frames()
        gdb.execute("bt")
        gdb.execute("frame 1", to_string=True)


class ThreadCommand(gdb.Command):
    """Goes back from a fiber to the stack of the thread."""

    def __init__(self):
        super().__init__("ramie thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        forget_fiber()
        gdb.execute("frame 0")


RamieCommand()
ListCommand()
SelectCommand()
ThreadCommand()
