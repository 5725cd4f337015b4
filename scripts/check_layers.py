#!/usr/bin/env python3
"""Includes go down the list of rooms in docs/ARCHITECTURE.md, never up: each room may include itself and what it stands on."""
import pathlib
import re
import sys

ROOMS = {  # room: the rooms that it may include, besides itself
    "base": [],
    "trace": ["base"],
    "memory": ["base", "trace"],
    "program": ["base"],
    "pack": ["base"],
    "kernels": ["base", "trace", "memory", "program"],
    "plan": ["base", "trace", "memory", "program", "pack", "kernels"],
    "run": ["base", "trace", "memory", "program", "pack", "kernels", "plan"],
    "train": ["base", "trace", "memory", "program", "pack", "kernels", "plan", "run", "models"],
    "models": ["base", "program"],
    "explain": ["base", "trace", "memory", "pack", "plan"],
    "report": ["base", "trace", "memory", "program", "pack", "kernels", "plan", "run", "train", "models", "explain"],
}

root = pathlib.Path(__file__).resolve().parent.parent
wrong = []
for path in sorted((root / "plimsoll").rglob("*")):
    if path.suffix not in (".h", ".cc", ".cu"):
        continue
    room = path.relative_to(root / "plimsoll").parts[0]
    if room not in ROOMS:
        wrong.append(f"{path.relative_to(root)}: {room} is no room of docs/ARCHITECTURE.md")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'#include "plimsoll/(\w+)/', line)
        if found and found[1] != room and found[1] not in ROOMS[room]:
            wrong.append(f"{path.relative_to(root)}:{number}: {room} includes {found[1]}, which is not below it")
        if re.match(r'#include "(cli|tests|bench)/', line):
            wrong.append(f"{path.relative_to(root)}:{number}: the library includes {line.split()[1]}")
print("\n".join(wrong) or "layers: every include goes down")
sys.exit(bool(wrong))
