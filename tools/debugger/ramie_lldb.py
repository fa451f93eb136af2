"""Shows the fibers of a program that uses Ramie in lldb, in a live process or a core file.

    lldb -p PID -o "command script import tools/debugger/ramie_lldb.py"
    lldb PROGRAM -c CORE -o "command script import tools/debugger/ramie_lldb.py"

    ramie fibers       lists all strands, with their waits
    ramie fiber ID     selects a fiber and shows its stack; bt, up, down and frame variable follow it

The fiber appears as one more thread until the process continues; `thread select` goes back to another
one. In `bt`, the frames behind `stack_init_trampoline` are those of the worker, from another time.

This file is also the plugin for operating systems by which lldb makes that thread. It only reads
memory: it calls no function of the program and changes no register. x86-64 only. It needs
`strands.py` beside it.
"""

import os
import struct
import sys

import lldb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from strands import ROOT, SECTION, Layout, Refusal, Unreadable  # noqa: E402

# No thread of a process has this id or a higher one; that of a fiber is its index more.
FIBER_THREAD = 1 << 40
# The registers of a fiber, as the plugin describes them to lldb: name, number of DWARF, generic name.
REGISTERS = (
    ("rax", 0, None), ("rdx", 1, None), ("rcx", 2, None), ("rbx", 3, None), ("rsi", 4, None),
    ("rdi", 5, None), ("rbp", 6, "fp"), ("rsp", 7, "sp"), ("r8", 8, None), ("r9", 9, None),
    ("r10", 10, None), ("r11", 11, None), ("r12", 12, None), ("r13", 13, None), ("r14", 14, None),
    ("r15", 15, None), ("rip", 16, "pc"), ("rflags", 49, "flags"),
)


class Memory:
    """The program, as lldb reads it."""

    def __init__(self, process):
        self.process = process

    def read(self, address, length):
        if length == 0:
            return b""
        error = lldb.SBError()
        content = self.process.ReadMemory(address, length, error)
        if error.Fail() or content is None or len(content) != length:
            # Constants, which a core file leaves to the file of the program.
            target = self.process.GetTarget()
            place = target.ResolveLoadAddress(address)
            content = target.ReadMemory(place, length, error)
        if content is None or len(content) != length:
            raise Unreadable(f"{length} bytes at {address:#x}")
        return content

    def symbol(self, address):
        found = self.process.GetTarget().ResolveLoadAddress(address).GetSymbol()
        return (found.GetName() or "") if found.IsValid() else ""


def sections(parent, count, get):
    for at in range(count):
        section = get(parent, at)
        yield section
        yield from sections(
            section, section.GetNumSubSections(), lambda parent, at: parent.GetSubSectionAtIndex(at))


def layout(process):
    target = process.GetTarget()
    for module in target.module_iter():
        number = module.GetNumSections()
        for section in sections(module, number, lambda module, at: module.GetSectionAtIndex(at)):
            if section.GetName() == SECTION:
                return Layout(Memory(process), section.GetLoadAddress(target))
    raise Refusal("there is no program that uses Ramie; load it with `target create PROGRAM`")


def thread_stacks(process):
    """The number and the stack pointer of each thread that is not a fiber."""
    threads = [thread for thread in process if thread.GetThreadID() < FIBER_THREAD]
    return [(thread.GetIndexID(), thread.GetFrameAtIndex(0).GetSP()) for thread in threads]


def list_fibers(process, result):
    threads = thread_stacks(process)
    count = 0
    for strand in layout(process).strands():
        count += 1
        result.AppendMessage(strand.line(threads))
    result.AppendMessage(f"{count} strands")


def select_fiber(process, wanted, result):
    program = layout(process)
    strand, _ = program.find(wanted, thread_stacks(process))
    thread = process.CreateOSPluginThread(FIBER_THREAD + int(wanted.split(".")[0]), 0)
    if not thread.IsValid():
        raise Refusal("lldb does not show the fiber; import this script again")
    process.SetSelectedThread(thread)
    # Not by `thread backtrace`, which would show the thread that was selected before this command.
    for frame in thread:
        description = lldb.SBStream()
        frame.GetDescription(description)
        result.AppendMessage(description.GetData().rstrip())
        if ROOT in (frame.GetFunctionName() or ""):
            # Behind it lie frames of the worker, from another time.
            return


def ramie(_debugger, command, context, result, _):
    """Shows the fibers of a program that uses Ramie: ramie fibers, ramie fiber ID."""
    process = context.GetProcess()
    words = command.split()
    try:
        if not process.IsValid():
            raise Refusal("there is no process; attach to one, or load a core file")
        if words == ["fibers"]:
            list_fibers(process, result)
        elif words[:1] == ["fiber"] and len(words) <= 2:
            select_fiber(process, words[1] if len(words) == 2 else "", result)
        else:
            raise Refusal("expected ramie fibers or ramie fiber ID")
    except Refusal as refusal:
        result.SetError(str(refusal))
    except Unreadable as error:
        result.SetError(f"memory of the program cannot be read: {error}")


class OperatingSystemPlugIn:
    """Makes a thread of a fiber on request. lldb finds the class by this name."""

    def __init__(self, process):
        self.process = process

    def get_thread_info(self):
        # None at a stop, because a program may have a million fibers.
        return []

    def create_thread(self, tid, _):
        """Called by `CreateOSPluginThread`."""
        return {
            "tid": tid, "name": f"fiber {tid - FIBER_THREAD}", "queue": "", "state": "stopped",
            "stop_reason": "none",
        }

    def get_register_info(self):
        described = []
        for at, (name, dwarf, generic) in enumerate(REGISTERS):
            register = {
                "name": name, "bitsize": 64, "offset": 8 * at, "encoding": "uint", "format": "hex",
                "set": 0, "gcc": dwarf, "dwarf": dwarf,
            }
            described.append({**register, "generic": generic} if generic else register)
        return {"sets": ["general"], "registers": described}

    def get_register_data(self, tid):
        program = layout(self.process)
        fibers = [s for s in program.strands() if s.is_started and not s.is_thread]
        index = str(tid - FIBER_THREAD)
        fiber = next(fiber for fiber in fibers if fiber.id.split(".")[0] == index)
        saved = program.saved_registers(fiber, fibers)
        values = [saved.get(name, 0) for name, _, _ in REGISTERS]
        return struct.pack(f"<{len(values)}Q", *values)


def __lldb_init_module(debugger, _):
    # lldb imports this file once more, as the plugin, by this path.
    path = os.path.abspath(__file__)
    if not hasattr(lldb, "ramie_is_imported"):
        lldb.ramie_is_imported = True
        debugger.HandleCommand(f"command script add -o -f {__name__}.ramie ramie")
        debugger.HandleCommand(f"settings set target.process.python-os-plugin-path '{path}'")
