"""Reads, compares and writes the resource budgets in kernels/budgets.toml."""

import re
import tomllib

from . import ARCHS, REFERENCE, Problem

NUMBERS = ("registers", "shared", "spill", "stack", "wide", "other")
EARLY = "early"
# Kernels whose instructions have a budget: MSM kernels work in loops, NTT kernels are mostly
# unrolled, so all of their code is counted.
COUNTED_LOOPS = re.compile(r"g1_tree_first|g[12]_tree_level|g[12]_balanced_share")
COUNTED_WHOLE = re.compile(r"ntt_(dif|dit)_(columns|rows|fused)_\w+")
HEADER = """\
# The resource budget of each kernel, written by `scripts/check-kernels --arch all --write`. `all`
# applies to every architecture; other lines to those they name. Zeros are omitted.
#
# registers  per thread, rounded up to the GPU's granularity of 8
# shared     static shared memory per block, in bytes
# spill      stores and loads of spilled registers, in bytes
# stack      per thread, in bytes
# wide       IMAD.WIDE instructions: in the loops of MSM kernels, in the whole of NTT kernels.
#            A called function counts at each call
# other      all other instructions counted like `wide`
# early      the kernel supports programmatic dependent launch
"""


def is_counted(kernel):
    """Whether a kernel's instructions have a budget."""
    return COUNTED_LOOPS.fullmatch(kernel) or COUNTED_WHOLE.fullmatch(kernel)


def rounded(registers):
    """Registers as a GPU allocates them; a thread has at most 255."""
    return min(255, (registers + 7) // 8 * 8)


def architectures(key):
    """The architectures that a line's key names; none for `all` and for unknown keys."""
    names = key.removeprefix("sm_").split("_")
    return names if key.startswith("sm_") and set(names) <= set(ARCHS) else []


def budget_of(row, arch):
    """The numbers of one architecture in a row of the table."""
    budget = dict.fromkeys(NUMBERS, 0) | row.get("all", {})
    for key, line in row.items():
        if arch in architectures(key):
            budget |= line
    return budget


def read_table(text):
    """Parses the table. Fails on unknown words, so that no mistyped budget is ignored."""
    table = tomllib.loads(text)
    for kernel, row in table.items():
        for key, line in row.items():
            known = {*NUMBERS, EARLY} if key == "all" else set(NUMBERS)
            if not isinstance(line, dict) or (key != "all" and not architectures(key)):
                raise Problem(f"kernels/budgets.toml, {kernel}: unknown key {key}")
            if unknown := set(line) - known:
                raise Problem(f"kernels/budgets.toml, {kernel}: unknown key {min(unknown)}")
    return table


def is_early(row):
    """Whether the table says that the kernel waits for its predecessor."""
    return row.get("all", {}).get(EARLY, False)


def problems(table, found):
    """Yields differences from the table. `found`: {kernel: {architecture: numbers}}."""
    for kernel, by_arch in sorted(found.items()):
        row = table.get(kernel)
        if row is None:
            registers = max(numbers["registers"] for numbers in by_arch.values())
            yield f"{kernel}: not in kernels/budgets.toml; it uses {registers} registers"
            continue
        for arch, numbers in by_arch.items():
            budget = budget_of(row, arch)
            for name in NUMBERS:
                if numbers.get(name, 0) > budget[name]:
                    yield f"{kernel}, sm_{arch}: {name} {numbers[name]}, budget {budget[name]}"
        # Exactly the kernels that wait are `early` in the table.
        for arch, numbers in by_arch.items():
            if numbers.get(EARLY, is_early(row)) != is_early(row):
                what = "waits" if numbers[EARLY] else "does not wait"
                yield f"{kernel}, sm_{arch}: {what}, contrary to kernels/budgets.toml"
    for kernel in table:
        if kernel not in found:
            yield f"{kernel}: in kernels/budgets.toml, but no such kernel"


def line_of(kernel, key, values):
    inner = ", ".join(f"{name} = {value}" for name, value in values.items())
    return f"{kernel}.{key} = {{ {inner} }}"


def row_of(kernel, old, by_arch):
    """The lines of one kernel; those of architectures that were not measured are kept."""
    measured = {
        arch: {name: numbers.get(name, 0) for name in NUMBERS}
        | {"registers": rounded(numbers["registers"])}
        for arch, numbers in by_arch.items()
    }
    base = measured.get(REFERENCE) or budget_of(old, REFERENCE)
    if not any(base.values()):
        base = next(iter(measured.values()))
    waits = {numbers[EARLY] for numbers in by_arch.values() if EARLY in numbers} or {is_early(old)}
    line = {name: base[name] for name in NUMBERS if base[name]}
    yield line_of(kernel, "all", line | ({EARLY: "true"} if True in waits else {}))
    groups = {}
    for arch in ARCHS:
        kept = [value for key, value in old.items() if arch in architectures(key)]
        numbers = measured.get(arch) or base | {n: v for value in kept for n, v in value.items()}
        differ = tuple((name, numbers[name]) for name in NUMBERS if numbers[name] != base[name])
        if differ:
            groups.setdefault(differ, []).append(arch)
    for differ, archs in groups.items():
        yield line_of(kernel, f"sm_{'_'.join(archs)}", dict(differ))


def comments(text):
    """The comment above each row that has one, without the headings, which name modules."""
    found, lines = {}, []
    for line in text.splitlines():
        if line.startswith("#"):
            lines.append(line)
            continue
        if lines and "." in line:
            found.setdefault(line.split(".")[0], lines)
        lines = []
    return {k: [l for l in ls if not re.fullmatch(r"# \w+(/\w+)*", l)] for k, ls in found.items()}


def written(text, modules, found):
    """The text of the table for the measured kernels. `modules`: {module: [kernel]}."""
    old, kept = read_table(text), comments(text)
    lines = [HEADER.rstrip("\n")]
    for module, kernels in sorted(modules.items()):
        lines += ["", f"# {module}"]
        for kernel in sorted(kernels):
            lines += kept.get(kernel, [])
            lines += row_of(kernel, old.get(kernel, {}), found[kernel])
    return "\n".join(lines) + "\n"
