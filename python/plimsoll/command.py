"""The command `plimsoll` of an installed wheel: the binary that came with it."""

import os
import sys


def main():
    binary = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "plimsoll")
    os.execv(binary, [binary, *sys.argv[1:]])
