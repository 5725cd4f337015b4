#!/usr/bin/env python3
"""Includes go down the list of rooms in docs/ARCHITECTURE.md, never up: each room may include itself and what it stands
on. Headers of cli/ are few lines."""
import pathlib
import re
import sys

ROOMS = {  # room: the rooms that it may include, besides itself
    "base": [],
    "trace": ["base"],
    "memory": ["base", "trace"],
    "program": ["base"],
    "pack": ["base"],
    "device": ["base", "trace", "memory"],
    "kernels": ["base", "trace", "memory", "program", "device"],
    "plan": ["base", "trace", "memory", "program", "pack", "device", "kernels"],
    "run": ["base", "trace", "memory", "program", "pack", "device", "kernels", "plan"],
    "train": ["base", "trace", "memory", "program", "pack", "device", "kernels", "plan", "run", "models"],
    "models": ["base", "program"],
    "explain": ["base", "trace", "memory", "pack", "plan"],
    "report": ["base", "trace", "memory", "program", "pack", "device", "kernels", "plan", "run", "train",
               "models", "explain"],
}

root = pathlib.Path(__file__).resolve().parent.parent
wrong = []
for path in sorted((root / "plimsoll").rglob("*")):
    if path.suffix not in (".h", ".cc", ".cu"):
        continue
    room = path.relative_to(root / "plimsoll").parts[0]
    if room == "plimsoll.h":  # the front door includes what users may include
        continue
    if room not in ROOMS:
        wrong.append(f"{path.relative_to(root)}: {room} is no room of docs/ARCHITECTURE.md")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'#include "plimsoll/(\w+)/', line)
        if found and found[1] != room and found[1] not in ROOMS[room]:
            wrong.append(f"{path.relative_to(root)}:{number}: {room} includes {found[1]}, which is not below it")
        if re.match(r'#include "(cli|tests|bench)/', line):
            wrong.append(f"{path.relative_to(root)}:{number}: the library includes {line.split()[1]}")
for folder in ("plimsoll", "cli", "bench", "examples"):  # what a device has of its own is included by none but it
    for path in sorted((root / folder).rglob("*")):
        within = path.relative_to(root)
        if path.suffix not in (".h", ".cc", ".cu") or within.is_relative_to("plimsoll/kernels/cpu"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.match(r'#include "plimsoll/kernels/cpu/', line):
                wrong.append(f"{within}:{number}: only kernels/cpu includes from kernels/cpu")
# The command line is thin: its headers are options and text, the code stands in sources and in the rooms.
CLI_HEADER_LINES = 350
lines = sum(len(path.read_text().splitlines()) for path in (root / "cli").glob("*.h"))
if lines > CLI_HEADER_LINES:
    wrong.append(f"cli/*.h: {lines} lines, more than {CLI_HEADER_LINES}: move what is no option and no text into a room")
print("\n".join(wrong) or "layers: every include goes down")
sys.exit(bool(wrong))
