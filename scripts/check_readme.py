#!/usr/bin/env python3
"""Runs the `plimsoll` and `draw_digits` commands of README.md and docs/*.md, in the order they stand:
check_readme.py PATH_TO_BINARY.

A block fenced as ```sh holds commands. A line `$ plimsoll ...` is run; lines after it, up to the next `$`, are what it
must print, `...` standing for anything. A comment `# exits N` says the status. `./dev` lines are the tests themselves."""
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
binary = pathlib.Path(sys.argv[1]).resolve()
environment = dict(os.environ, PATH=f"{binary.parent}:{binary.parent.parent / 'examples'}:{os.environ['PATH']}")
environment.update(LC_ALL="C.UTF-8", COLUMNS="80")


def commands(document):
    fenced, current = False, None
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = line == "```sh"
            if current:
                yield current
            current = None
        elif fenced and line.startswith("$ "):
            if current:
                yield current
            current = (number, line[2:], [])
        elif fenced and current:
            current[2].append(line)


def matches(expected, printed):
    pattern = "".join(r"[\s\S]*?" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", expected))
    return re.fullmatch(pattern, printed) is not None


ran, wrong = 0, []
for document in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
    for number, command, expected in commands(document):
        if not command.startswith(("plimsoll", "draw_digits")):
            continue
        status = re.search(r"#\s*exits (\d+)", command)
        result = subprocess.run(command, shell=True, cwd=root, env=environment, capture_output=True, text=True, timeout=120)
        ran += 1
        where = f"{document.relative_to(root)}:{number}: {command}"
        if result.returncode != (int(status[1]) if status else 0):
            wrong.append(f"{where}\n  exited {result.returncode}\n{result.stderr}")
        elif expected and not matches("\n".join(expected).strip(), (result.stdout + result.stderr).strip()):
            wrong.append(f"{where}\n  printed\n{result.stdout}{result.stderr}")
print("\n".join(wrong) or f"README and docs: {ran} commands do what they say")
sys.exit(bool(wrong) or ran == 0)
