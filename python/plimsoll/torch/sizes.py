"""Sizes as text: 16GiB, 24 GB, 512MiB."""

import re

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_UNITS.update({"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12})


def parse_bytes(text):
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(text))
    if not found or found.group(2).lower() not in _UNITS:
        raise ValueError(f"budget is {text!r}: expected a size like 16GiB")
    return int(float(found.group(1)) * _UNITS[found.group(2).lower()])


def format_bytes(count):
    for unit in ("GiB", "MiB", "KiB"):
        if count >= _UNITS[unit.lower()]:
            return f"{count / _UNITS[unit.lower()]:.2f} {unit}"
    return f"{count} B"
