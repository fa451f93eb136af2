"""Shows the fibers of a program that uses Ramie in gdb, in a live process or a core file.

    gdb -x tools/debugger/ramie.py -p PID
    gdb -x tools/debugger/ramie.py PROGRAM CORE

    ramie fibers       lists all strands, with their waits
    ramie fiber ID     shows the stack of a fiber; bt, up, down, frame and info locals follow it
    ramie thread       goes back to the stack of the thread

The script only reads memory: it calls no function of the program and changes no register. Frame 0
remains that of the thread; the frames of the fiber begin at 1. x86-64 only. It needs `strands.py`
beside it.
"""

import os
import re
import sys

import gdb
from gdb.unwinder import Unwinder, register_unwinder

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from strands import ROOT, SECTION, Layout, Refusal, Unreadable  # noqa: E402


class Memory:
    """The program, as gdb reads it."""

    @staticmethod
    def read(address, length):
        try:
            return gdb.selected_inferior().read_memory(address, length).tobytes()
        except gdb.MemoryError as error:
            raise Unreadable from error

    @staticmethod
    def symbol(address):
        text = gdb.execute(f"info symbol {address:#x}", to_string=True)
        return re.sub(r"(?: \+ \d+)? in section .*", "", text.strip(), flags=re.DOTALL)


def layout():
    sections = gdb.execute("info files", to_string=True)
    found = re.search(rf"(0x[0-9a-f]+) - 0x[0-9a-f]+ is {re.escape(SECTION)}", sections)
    if not found:
        raise Refusal("there is no program that uses Ramie; load it with `file PROGRAM`")
    return Layout(Memory, int(found[1], 16))


def registers():
    """The instruction and the stack pointer of the selected thread."""
    frame = gdb.newest_frame()
    return int(frame.read_register("rip")), int(frame.read_register("rsp"))


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
        if self.bounds[0] <= here[1] <= self.bounds[1] + 4096 and ROOT in Memory.symbol(here[0]):
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


class FiberCommand(gdb.Command):
    """A command whose refusals are sentences."""

    def invoke(self, argument, from_tty):
        forget_fiber()
        try:
            self.run(argument.strip())
        except Refusal as refusal:
            raise gdb.GdbError(str(refusal)) from refusal
        except Unreadable as error:
            raise gdb.GdbError(f"memory of the program cannot be read: {error.__cause__}") from error


class ListCommand(FiberCommand):
    """Lists all strands: id, name, state, the place of the wait, closure."""

    def __init__(self):
        super().__init__("ramie fibers", gdb.COMMAND_STACK)

    def run(self, _):
        threads = thread_stacks()
        count = 0
        for strand in layout().strands():
            count += 1
            print(strand.line(threads))
        print(f"{count} strands")


class SelectCommand(FiberCommand):
    """Shows the stack of a fiber: ramie fiber ID."""

    def __init__(self):
        super().__init__("ramie fiber", gdb.COMMAND_STACK)

    def run(self, wanted):
        program = layout()
        strand, fibers = program.find(wanted, thread_stacks())
        UNWINDER.select(registers(), program.saved_registers(strand, fibers), strand.bounds())
        gdb.invalidate_cached_frames()
        gdb.execute("bt")
        gdb.execute("frame 1", to_string=True)


class ThreadCommand(FiberCommand):
    """Goes back from a fiber to the stack of the thread."""

    def __init__(self):
        super().__init__("ramie thread", gdb.COMMAND_STACK)

    def run(self, _):
        gdb.execute("frame 0")


RamieCommand()
ListCommand()
SelectCommand()
ThreadCommand()
