#!/usr/bin/env python3
"""Records what training scripts allocate on a GPU, op by op.

    record_traces.py -o OUT.tar [-j JOBS] [--plain] SCRIPT.py ...

Each script runs twice, in processes of its own. The plain run measures the peaks and keeps the allocator's history. The
other one (left out with --plain) runs under a dispatch mode that notes the allocator's counters around every op, so that
each allocation belongs to the op that made it: an allocation that is no output of its op was made inside the kernel.
Tensors live a little longer under it than in the plain run. OUT.tar gets for each script

    NAME.json       peaks of the plain run, seconds, what failed
    NAME.plain.csv.gz     event,id,bytes,stream,op: the plain run's trace, with no ops
    NAME.segments.csv.gz  event,allocations,address,bytes: what its allocator took from the driver, after so many allocations
    NAME.csv.gz     event,id,bytes,stream,op: the trace; `op` is a line number of NAME.ops.gz, empty outside of ops
    NAME.ops.gz     one op a line: name, inputs, output bytes, separated by tabs

and device.json: the card, versions, and what a bare context takes.
"""

import argparse
import concurrent.futures
import gzip
import json
import os
import runpy
import subprocess
import sys
import tarfile
import tempfile
import time

# Of cuDNN: a descriptor of device properties, its attributes for the device and for JSON, their types.
DEVICEPROP = (38, 2700, 2702, 23, 24)


def run_script(path):
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit:
        pass


def plain_run(script, out):
    import torch

    began = time.time()
    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=2_000_000)
    run_script(script)
    stats = torch.cuda.memory_stats()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    write_trace(events, [], out + ".plain.csv.gz")
    write_segments(events, out + ".segments.csv.gz")
    json.dump(
        {
            "case": name_of(script),
            "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved(),
            "peak_requested": stats["requested_bytes.all.peak"],
            "seconds": round(time.time() - began, 2),
        },
        open(out + ".json", "w"),
    )


def describe(value):
    import torch

    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).replace("torch.", "")
        where = "" if value.is_cuda else "@" + value.device.type
        strides = "" if value.is_contiguous() else "/" + ",".join(map(str, value.stride()))
        return f"{dtype}[{','.join(map(str, value.shape))}{strides}]{where}"
    if isinstance(value, (list, tuple)):
        if len(value) > 6 and isinstance(value[0], torch.Tensor):
            return f"({len(value)} x {describe(value[0])} ..)"
        return "(" + ",".join(describe(v) for v in value) + ")"
    return str(value)[:40]


def recorded_run(script, out):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_iter

    ops = []
    bounds = []  # of each op: allocations counted before and after it

    def allocations():
        return torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"]

    class Brackets(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            text = str(func) + "\t" + " ".join(describe(a) for a in args)
            text += "".join(f" {k}={describe(v)}" for k, v in kwargs.items())
            before = allocations()
            result = func(*args, **kwargs)
            after = allocations()
            if after > before:
                made = [
                    str(t.untyped_storage().nbytes())
                    for t in tree_iter(result)
                    if isinstance(t, torch.Tensor) and t.is_cuda
                ]
                ops.append(text[:600] + "\t" + ",".join(made[:8]))
                bounds.append((before, after))
            return result

    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=2_000_000)
    with Brackets():
        run_script(script)
    snapshot = torch.cuda.memory._snapshot()
    write_trace(snapshot["device_traces"][0], bounds, out + ".csv.gz")
    with gzip.open(out + ".ops.gz", "wt") as file:
        file.write("".join(line.replace("\n", " ") + "\n" for line in ops))


def write_trace(events, bounds, path):
    ids = {}
    streams = {}
    count = 0
    op = 0
    with gzip.open(path, "wt", compresslevel=9) as file:
        file.write("event,id,bytes,stream,op\n")
        for event in events:
            stream = streams.setdefault(event["stream"], len(streams))
            if event["action"] == "alloc":
                while op < len(bounds) and bounds[op][1] <= count:
                    op += 1
                inside = op < len(bounds) and bounds[op][0] <= count
                ids[event["addr"]] = (count, event["size"], stream)
                file.write(f"alloc,{count},{event['size']},{stream},{op if inside else ''}\n")
                count += 1
            elif event["action"] == "free_completed" and event["addr"] in ids:
                number, size, stream = ids.pop(event["addr"])
                file.write(f"free,{number},{size},{stream},\n")


def write_segments(events, path):
    """Where the driver put segments: ties between free blocks of a size are broken by address."""
    with gzip.open(path, "wt", compresslevel=9) as file:
        file.write("event,allocations,address,bytes\n")
        count = 0
        for event in events:
            count += event["action"] == "alloc"
            if event["action"] in ("segment_alloc", "segment_free"):
                file.write(f"{event['action']},{count},{event['addr']:x},{event['size']}\n")


def device_facts(out):
    import torch

    torch.cuda.init()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    torch.empty(1, device="cuda")
    facts = {
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "cuda": torch.version.cuda,
        "name": torch.cuda.get_device_name(),
        "properties": str(torch.cuda.get_device_properties(0)),
        "total_bytes": total,
        "used_by_bare_context": total - free,
    }
    a = torch.randn(512, 512, device="cuda")
    (a @ a).sum().item()
    facts["used_after_cublas"] = total - torch.cuda.mem_get_info()[0]
    torch.nn.functional.conv2d(torch.randn(4, 3, 64, 64, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda"))
    torch.cuda.synchronize()
    facts["used_after_cudnn"] = total - torch.cuda.mem_get_info()[0]
    facts["reserved_then"] = torch.cuda.memory_reserved()
    try:
        facts["cudnn_device"] = cudnn_device_json()
    except Exception as error:  # an older cuDNN has no such descriptor
        facts["cudnn_device_error"] = repr(error)
    json.dump(facts, open(out, "w"), indent=1)


def cudnn_device_json():
    """The description of this card from which cuDNN chooses engines on a machine without one."""
    import ctypes
    places = [os.path.join(p, "nvidia", "cudnn", "lib", "libcudnn.so.9") for p in sys.path]
    found = [p for p in places if os.path.exists(p)] or ["libcudnn.so.9"]
    cudnn = ctypes.CDLL(found[0])
    deviceprop, device_id, json_text, as_int32, as_char = DEVICEPROP
    descriptor = ctypes.c_void_p()
    check(cudnn.cudnnBackendCreateDescriptor(deviceprop, ctypes.byref(descriptor)))
    device = ctypes.c_int32(0)
    check(cudnn.cudnnBackendSetAttribute(descriptor, device_id, as_int32, ctypes.c_int64(1), ctypes.byref(device)))
    check(cudnn.cudnnBackendFinalize(descriptor))
    count = ctypes.c_int64()
    check(cudnn.cudnnBackendGetAttribute(descriptor, json_text, as_char, ctypes.c_int64(0), ctypes.byref(count), None))
    text = ctypes.create_string_buffer(count.value + 1)
    check(cudnn.cudnnBackendGetAttribute(descriptor, json_text, as_char, count, ctypes.byref(count), text))
    return text.value.decode()


def check(status):
    if status != 0:
        raise RuntimeError(f"cuDNN answered {status}")


def name_of(script):
    return os.path.splitext(os.path.basename(script))[0]


def child(script, folder, kind, limit):
    began = time.time()
    command = [sys.executable, os.path.abspath(__file__), "--child", kind, "-o", os.path.join(folder, name_of(script))]
    try:
        done = subprocess.run(command + [script], capture_output=True, text=True, timeout=limit)
        failed = "" if done.returncode == 0 else done.stderr[-1500:]
    except subprocess.TimeoutExpired:
        failed = f"not done after {limit} s"
    if failed:
        with open(os.path.join(folder, f"{name_of(script)}.{kind}.failed"), "w") as file:
            file.write(failed)
    print(f"{name_of(script):32} {kind:8} {time.time() - began:6.1f} s {'FAILED' if failed else ''}", flush=True)


def record(options):
    with tempfile.TemporaryDirectory() as folder:
        device_facts_in_child(folder)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for kind in ("plain",) if options.plain else ("recorded", "plain"):
                for script in options.scripts:
                    pool.submit(child, script, folder, kind, options.limit)
        with tarfile.open(options.output, "w") as tar:
            for entry in sorted(os.listdir(folder)):
                tar.add(os.path.join(folder, entry), entry)


def device_facts_in_child(folder):
    command = [sys.executable, os.path.abspath(__file__), "--child", "device", "-o", os.path.join(folder, "device.json")]
    subprocess.run(command + ["-"], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("-j", "--jobs", type=int, default=4)
    parser.add_argument("--plain", action="store_true", help="the plain runs alone")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each run of a script")
    parser.add_argument("--child", choices=["plain", "recorded", "device"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "plain":
        plain_run(options.scripts[0], options.output)
    elif options.child == "recorded":
        recorded_run(options.scripts[0], options.output)
    elif options.child == "device":
        device_facts(options.output)
    else:
        record(options)


if __name__ == "__main__":
    main()
