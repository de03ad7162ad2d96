"""Parses the resources of each kernel from reports of ptxas -v."""

import re

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
FUNCTION = re.compile(r"Function properties for (\w+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
# Includes the stacks of called functions.
CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
SHARED = re.compile(r"(\d+) bytes smem")


def resources(report):
    """Returns {(architecture, kernel): {number: value}}."""
    found, key, function = {}, None, None
    stack = spills = 0
    for line in report.splitlines():
        if entry := ENTRY.search(line):
            key, stack, spills = (entry[2], entry[1]), 0, 0
        elif properties := FUNCTION.search(line):
            function = properties[1]
        elif (frame := FRAME.search(line)) and key and function == key[1]:
            stack, spills = int(frame[1]), int(frame[2]) + int(frame[3])
        elif (used := USED.search(line)) and key:
            whole, shared = CUMULATIVE.search(line), SHARED.search(line)
            found[key] = {
                "registers": int(used[1]),
                "shared": int(shared[1]) if shared else 0,
                "spill": spills,
                "stack": max(stack, int(whole[1]) if whole else 0),
            }
            key = None
    return found
