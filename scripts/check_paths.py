#!/usr/bin/env python3
"""Every path that the documents name in backquotes exists: a map that names files long gone is worse than none."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
tops = [p.name for p in root.iterdir()]
missing = []
for document in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
    for number, line in enumerate(document.read_text().splitlines(), 1):
        for path in re.findall(r"`([\w.{},*/-]+/[\w.{},*/-]*)`", line) + re.findall(r"\]\(([\w./-]+)\)", line):
            if path.startswith("build/") or (path.split("/")[0] not in tops and not (document.parent / path).exists()):
                if "](" + path + ")" not in line:
                    continue  # not a path of ours: an option, a system file
            names = [path]
            if "{" in path:
                before, choices, after = re.match(r"(.*)\{(.*)\}(.*)", path).groups()
                names = [before + choice + after for choice in choices.split(",")]
            for name in names:
                if not (list(root.glob(name)) if "*" in name else (root / name).exists() or (document.parent / name).exists()):
                    missing.append(f"{document.relative_to(root)}:{number}: {name} does not exist")
print("\n".join(missing) or "docs: every path named exists")
sys.exit(bool(missing))
