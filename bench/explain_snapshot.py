#!/usr/bin/env python3
"""Make a PyTorch memory snapshot of a given size, or time pickle.load on one.

  explain_snapshot.py make FILE EVENTS   a snapshot as torch.cuda.memory._dump_snapshot lays it out: frame dicts are
                                         shared, every traceback has its own list of them
  explain_snapshot.py load FILE          prints seconds and peak resident bytes of pickle.load
"""
import pickle
import random
import resource
import sys
import time

DEPTH = 24  # frames of a typical stack of a transformer's forward pass


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


def make_stacks(layers):
    shared = [frame("_call_impl", "site-packages/torch/nn/modules/module.py", 1790),
              frame("_wrapped_call_impl", "site-packages/torch/nn/modules/module.py", 1779)]
    outer = [frame("step", "train.py", 44), frame("<module>", "train.py", 102)]
    stacks = []
    for layer in range(layers):
        inner = [frame("forward", "site-packages/model/modeling.py", 100 + layer)]
        stacks.append(inner + shared * ((DEPTH - 3) // 2) + outer)
    return stacks


def make(path, count):
    rng = random.Random(1)
    stacks = make_stacks(96)
    events, live, address, clock = [], [], 140100256137216, 1794725391835697
    while len(events) < count:
        clock += rng.randrange(1, 40)
        if len(live) > 400 and rng.random() < 0.5:
            addr, size = live.pop(rng.randrange(len(live)))
            frames = list(rng.choice(stacks))
            for action in ("free_requested", "free_completed"):
                events.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": clock,
                               "compile_context": "N/A", "user_metadata": "", "frames": frames})
        else:
            size = 512 * rng.randrange(1, 40000)
            address += size
            live.append((address, size))
            events.append({"action": "alloc", "addr": address, "size": size, "stream": 0, "time_us": clock,
                           "compile_context": "N/A", "user_metadata": "", "frames": list(rng.choice(stacks))})
    segments = [{"device": 0, "address": addr, "total_size": size, "allocated_size": size, "active_size": size,
                 "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                 "is_expandable": False, "frames": [],
                 "blocks": [{"address": addr, "size": size, "requested_size": size, "state": "active_allocated",
                             "frames": stacks[0]}]} for addr, size in live]
    snapshot = {"segments": segments, "device_traces": [events[:count]],
                "allocator_settings": {"expandable_segments": False}, "external_annotations": []}
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)


def load(path):
    with open(path, "rb") as file:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        snapshot = pickle.load(file)
        seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert snapshot["device_traces"]
    print(seconds, (after - before) * 1024)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    else:
        load(sys.argv[2])
