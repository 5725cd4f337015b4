#!/usr/bin/env python3
"""Compares, on a machine with a GPU, the engines that cuDNN chooses with the device and from its description alone.

    probe_cudnn.py > OUT.json
"""

import ctypes
import importlib.util
import json
import os
import sys

import torch

here = os.path.dirname(os.path.abspath(__file__))
places = [os.path.join(here, "cudnn.py"), os.path.join(here, "..", "plimsoll", "torch", "cudnn.py")]
spec = importlib.util.spec_from_file_location("cudnn", next(p for p in places if os.path.exists(p)))
cudnn = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cudnn)

CONVOLUTIONS = [  # batch, channels, size, out channels, kernel, stride, padding
    (64, 64, 56, 64, 1, 1, 0),
    (64, 64, 56, 64, 3, 1, 1),
    (64, 256, 56, 64, 1, 1, 0),
    (64, 256, 14, 256, 3, 1, 1),
    (64, 512, 7, 512, 3, 1, 1),
    (64, 512, 7, 2048, 1, 1, 0),
]


def dense(shape):
    return tuple(shape), torch.empty(shape, device="meta").stride()


def ints(descriptor, attribute, kind):
    values, count = (ctypes.c_int32 * 32)(), ctypes.c_int64()
    descriptor.library.cudnnBackendGetAttribute(
        descriptor.handle, attribute, kind, ctypes.c_int64(32), ctypes.byref(count), values
    )
    return list(values)[: count.value]


def engines(kind, shape, handle, device):
    n, c, h, k, r, stride, padding = shape
    p = (h + 2 * padding - r) // stride + 1
    graph_of = cudnn._graph
    if handle:
        original = cudnn._Descriptor.finalize

        def finalize(self, what):
            if what in ("operation graph", "execution plan"):
                self.set(800 if what == "operation graph" else 400, 0, (ctypes.c_void_p * 1)(handle))
            return original(self, what)

        cudnn._Descriptor.finalize = finalize
    try:
        graph = graph_of(kind, "float32", dense((n, c, h, h)), dense((k, c, r, r)), dense((n, k, p, p)), (padding,) * 2, (stride,) * 2, (1, 1))
        result = []
        for config in cudnn._engine_configs(graph, device, 0) if not handle else configs_by_handle(graph):
            engine = cudnn._Descriptor(cudnn._library(), 2)
            array, count = (ctypes.c_void_p * 1)(engine.handle), ctypes.c_int64()
            cudnn._library().cudnnBackendGetAttribute(config.handle, 300, 15, ctypes.c_int64(1), ctypes.byref(count), array)
            try:
                workspace = workspace_by_handle(config) if handle else cudnn._plan_workspace(config, device)
            except cudnn.Unavailable as error:
                workspace = str(error)
            result.append((engine.get_int64(1301), ints(engine, 1303, 11), ints(engine, 1305, 19), workspace))
        return result
    finally:
        if handle:
            cudnn._Descriptor.finalize = original


def configs_by_handle(graph, limit=64):
    heuristics = cudnn._Descriptor(cudnn._library(), 4)
    heuristics.set_descriptor(201, graph)
    heuristics.set_int32(200, 8, 0)
    heuristics.finalize("heuristics")
    configs = [cudnn._Descriptor(cudnn._library(), 3) for _ in range(limit)]
    array = (ctypes.c_void_p * limit)(*[config.handle for config in configs])
    count = ctypes.c_int64()
    cudnn._library().cudnnBackendGetAttribute(heuristics.handle, 202, 15, ctypes.c_int64(limit), ctypes.byref(count), array)
    return configs[: count.value]


def workspace_by_handle(config):
    plan = cudnn._Descriptor(cudnn._library(), 5)
    plan.set_descriptor(401, config)
    plan.finalize("execution plan")
    return plan.get_int64(402)


def real_workspaces(shape):
    n, c, h, k, r, stride, padding = shape
    x = torch.randn(n, c, h, h, device="cuda", requires_grad=True)
    w = torch.randn(k, c, r, r, device="cuda", requires_grad=True)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=10000)
    y = torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)
    y.sum().backward()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    return [e["size"] for e in events if e["action"] == "alloc"]


def main():
    torch.zeros(1, device="cuda")
    device = cudnn._Descriptor(cudnn._library(), 38)
    device.set_int32(2700, 23, 0)
    device.finalize("device")
    handle = ctypes.c_void_p()
    assert cudnn._library().cudnnCreate(ctypes.byref(handle)) == 0
    report = {"version": cudnn._library().cudnnGetVersion(), "torch_cudnn": torch.backends.cudnn.version()}
    maps = {line.split()[-1] for line in open("/proc/self/maps") if "cudnn" in line or "cublas" in line}
    report["libraries"] = sorted(maps)
    for shape in CONVOLUTIONS:
        entry = {"real": real_workspaces(shape)}
        for kind in ("forward", "backward_data", "backward_filter"):
            entry[kind] = {"device": engines(kind, shape, None, device), "handle": engines(kind, shape, handle, device)}
        report[str(shape)] = entry
    json.dump(report, sys.stdout)


main()
