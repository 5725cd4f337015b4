#!/usr/bin/env python3
"""Replays allocation traces in CUDA's own stream-ordered pool on a GPU and keeps where each block was put.

    record_async.py -o OUT.tar [TRACE.csv.gz ...]

The pool is set up as PyTorch's cudaMallocAsync backend does it: nothing is given back before it is asked for. Each trace
runs in a process of its own; `probe` is a short one made here that tells the pool's units. OUT.tar gets NAME.csv.gz with
a line for each event of the trace: id, bytes (negative for a free), address less the first one, bytes reserved, and
NAME.json with the peaks. Needs the CUDA runtime, no packages.
"""

import argparse
import concurrent.futures
import ctypes
import glob
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile

MIB = 1 << 20
RELEASE_THRESHOLD, RESERVED_NOW, RESERVED_HIGH, USED_HIGH = 4, 5, 6, 8


class Pool:
    def __init__(self):
        self.runtime = ctypes.CDLL(find_runtime())
        self.runtime.cudaMallocAsync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self.runtime.cudaFreeAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.runtime.cudaMemPoolGetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        self.runtime.cudaMemPoolSetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        self.pool = ctypes.c_void_p()
        self.check(self.runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(self.pool), 0), "default pool")
        most = ctypes.c_uint64(2**64 - 1)
        self.check(self.runtime.cudaMemPoolSetAttribute(self.pool, RELEASE_THRESHOLD, ctypes.byref(most)), "threshold")

    def check(self, status, what):
        if status != 0:
            raise RuntimeError(f"{what}: CUDA answered {status}")

    def allocate(self, size):
        address = ctypes.c_void_p()
        self.check(self.runtime.cudaMallocAsync(ctypes.byref(address), size, None), f"{size} bytes")
        return address.value

    def free(self, address):
        self.check(self.runtime.cudaFreeAsync(address, None), "free")

    def attribute(self, which):
        value = ctypes.c_uint64()
        self.check(self.runtime.cudaMemPoolGetAttribute(self.pool, which, ctypes.byref(value)), "attribute")
        return value.value


def find_runtime():
    for folder in sys.path:
        for path in glob.glob(os.path.join(folder, "nvidia", "**", "libcudart.so.1?"), recursive=True):
            return path
    return "libcudart.so"


def read_trace(path):
    """(id, bytes); bytes are negative where the block is freed."""
    with gzip.open(path, "rt") as file:
        next(file)
        for line in file:
            event, number, size = line.split(",")[:3]
            yield int(number), int(size) if event == "alloc" else -int(size)


def probe():
    """Sizes around the units that pools have, then gaps that only joining, or moving pages, would fill."""
    events, live = [], 0

    def take(size):
        nonlocal live
        events.append((live, int(size)))
        live += 1
        return live - 1, int(size)

    def give(block):
        events.append((block[0], -block[1]))

    held = [take(s) for s in (1, 256, 257, 512, 513, 4096, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 16 * MIB, 31 * MIB,
                              32 * MIB, 32 * MIB + 1, 33 * MIB, 48 * MIB, 64 * MIB, 65 * MIB, 100 * MIB, 200 * MIB,
                              1000 * MIB, 1000 * MIB + 1)]
    for block in held[::2] + held[1::2]:
        give(block)
    for unit in (64 * MIB, 20 * MIB, 5 * MIB, MIB, 100_000):
        row = [take(unit) for _ in range(40)]
        for block in row[::2]:
            give(block)
        wide = [take(2 * unit) for _ in range(5)] + [take(unit // 2) for _ in range(10)]
        for block in row[1::2] + wide:
            give(block)
    large = [take(5000 * MIB) for _ in range(3)]
    give(large[1])
    more = [take(s * MIB) for s in (1000, 3000, 700, 5000, 6000, 200)]
    for block in [large[0], large[2]] + more[1::2] + more[::2]:
        give(block)
    take(12000 * MIB)
    return events


def run(trace, out):
    events = list(probe() if trace == "probe" else read_trace(trace))
    pool = Pool()
    addresses, first = {}, None
    with gzip.open(out + ".csv.gz", "wt", compresslevel=6) as file:
        file.write("id,bytes,address,reserved\n")
        for number, size in events:
            if size >= 0:
                address = addresses[number] = pool.allocate(size)
                first = address if first is None else first
            else:
                address = addresses.pop(number)
                pool.free(address)
            file.write(f"{number},{size},{address - first},{pool.attribute(RESERVED_NOW)}\n")
    json.dump({"reserved": pool.attribute(RESERVED_HIGH), "used": pool.attribute(USED_HIGH)}, open(out + ".json", "w"))


def name_of(trace):
    return os.path.basename(trace).split(".")[0]


def child(trace, folder):
    command = [sys.executable, os.path.abspath(__file__), "--child", "-o", os.path.join(folder, name_of(trace)), trace]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"{name_of(trace)}: failed: {done.stderr[-300:]}"
    with open(os.path.join(folder, name_of(trace) + ".json")) as file:
        return f"{name_of(trace)}: {file.read()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run(options.traces[0], options.output)
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(3) as workers:
            for line in workers.map(lambda trace: child(trace, folder), ["probe", *options.traces]):
                print(line, flush=True)
        with tarfile.open(options.output, "w") as tar:
            for entry in sorted(os.listdir(folder)):
                tar.add(os.path.join(folder, entry), entry)


if __name__ == "__main__":
    main()
