"""Parses nvdisasm's output: control flow, loops, and the wait for the previous kernel."""

import functools
import re

from . import Problem

SECTION = re.compile(r"^\.text\.(\w+):")
LABEL = re.compile(r"^(\S+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([\w.]+)\s*([^;]*);")
TARGET = re.compile(r"`\(([^)]+)\)")
# Accesses to device memory; LD and ST may access any memory.
GLOBAL = {"LD", "LDG", "LDGSTS", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "REDAS", "CCTL"}
GLOBAL_BEGINS = ("UBLK", "UTMA")
FLOW = {"BRA", "BRX", "JMP", "JMX", "CALL", "RET", "EXIT", "BREAK", "BSYNC", "WARPSYNC", "KILL"}
WAIT = "ACQBULK"


class Instruction:
    """One instruction."""

    __slots__ = ("guarded", "name", "base", "operands")

    def __init__(self, guard, name, operands):
        self.guarded = guard is not None
        self.name, self.base, self.operands = name, name.split(".")[0], operands.strip()

    def target(self):
        """The label in its operands, or None."""
        found = TARGET.search(self.operands)
        return found[1] if found else None


class Kernel:
    """The code of a kernel, followed by the functions that it calls."""

    def __init__(self, name):
        self.name, self.code, self.labels = name, [], {}

    def callee(self, instruction):
        """The index of the called function, or None. Calls of local labels are jumps."""
        if instruction.base != "CALL":
            return None
        target = instruction.target()
        if target is None:
            raise Problem(f"{self.name}: cannot follow {instruction.name} {instruction.operands}")
        return None if target.startswith(".L") else self.labels[target]

    def next_of(self, at):
        """Indices of the successors of the instruction at `at` in its function."""
        instruction = self.code[at]
        base, behind = instruction.base, [at + 1]
        if base in ("EXIT", "RET", "KILL"):
            return behind if instruction.guarded else []
        if base in ("BRX", "JMX"):
            raise Problem(f"{self.name}: cannot follow {instruction.name} {instruction.operands}")
        if base not in ("BRA", "JMP", "CALL", "WARPSYNC") or self.callee(instruction) is not None:
            return behind
        target = instruction.target()
        if target is None:
            return behind
        # Some branches have their condition in an operand.
        always = not instruction.guarded and instruction.operands == f"`({target})"
        always &= instruction.name in ("BRA", "JMP") or base == "CALL"
        return [self.labels[target]] + ([] if always else behind)

    def reachable(self, entry):
        """Indices of the instructions of the function at `entry`."""
        seen, open_ = {entry}, [entry]
        while open_:
            for after in self.next_of(open_.pop()):
                if after not in seen:
                    seen.add(after)
                    open_.append(after)
        return seen

    @functools.cache
    def cost_of(self, entry):
        """Counts IMAD.WIDE and other instructions of the function at `entry` and its callees."""
        return self.cost(self.reachable(entry))

    def cost(self, indices):
        """Counts IMAD.WIDE and other instructions at `indices`; each call adds the callee's."""
        wide = other = 0
        for at in indices:
            instruction = self.code[at]
            if instruction.name.startswith("IMAD.WIDE"):
                wide += 1
            else:
                other += 1
            callee = self.callee(instruction)
            if callee is not None:
                more_wide, more_other = self.cost_of(callee)
                wide, other = wide + more_wide, other + more_other
        return wide, other

    def loops(self):
        """Indices of the instructions in loops of the kernel itself, without its callees: the
        strongly connected components of its control flow."""
        order, low, on_stack, stack, found = {}, {}, set(), [], []
        for root in self.reachable(0):
            if root in order:
                continue
            work = [(root, iter(self.next_of(root)))]
            order[root] = low[root] = len(order)
            stack.append(root)
            on_stack.add(root)
            while work:
                at, rest = work[-1]
                for after in rest:
                    if after not in order:
                        order[after] = low[after] = len(order)
                        stack.append(after)
                        on_stack.add(after)
                        work.append((after, iter(self.next_of(after))))
                        break
                    if after in on_stack:
                        low[at] = min(low[at], order[after])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[at])
                    if low[at] == order[at]:
                        part = []
                        while not part or part[-1] != at:
                            part.append(stack.pop())
                            on_stack.discard(part[-1])
                        if len(part) > 1 or at in self.next_of(at):
                            found += part
        return found

    def loop_cost(self):
        """Counts IMAD.WIDE and other instructions of all loops."""
        wide, other = self.cost(self.loops())
        if not wide:
            raise Problem(f"{self.name}: no loop has IMAD.WIDE, so there is nothing to count")
        return wide, other

    def whole_cost(self):
        """Counts IMAD.WIDE and other instructions of the kernel."""
        return self.cost_of(0)

    def waits(self):
        """Whether the code waits for the previous kernel in its stream."""
        return any(instruction.base == WAIT for instruction in self.code)

    def wait_problem(self):
        """Why the wait is wrong; None if every thread waits before it touches memory."""
        for instruction in self.code:
            base = instruction.base
            text = f"{instruction.name} {instruction.operands}".strip()
            if base == WAIT:
                return f"{self.name}: waits under a condition" if instruction.guarded else None
            if base in GLOBAL or base.startswith(GLOBAL_BEGINS):
                return f"{self.name}: touches memory before it waits: {text}"
            if base in FLOW:
                return f"{self.name}: may skip its wait: {text}"
        return f"{self.name}: does not wait"


def kernels(text):
    """Parses the kernels of one image."""
    found, kernel = [], None
    for line in text.splitlines():
        if match := INSTRUCTION.match(line):
            kernel.code.append(Instruction(match[1], match[2], match[3]))
        elif match := SECTION.match(line):
            kernel = Kernel(match[1])
            found.append(kernel)
        elif kernel and (match := LABEL.match(line)):
            kernel.labels[match[1]] = len(kernel.code)
    return found
