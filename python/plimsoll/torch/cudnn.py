"""Asks cuDNN itself, on a machine without a GPU, how much workspace a convolution would take on a given card.

cuDNN 9.8 and later chooses engines from a description of a device as JSON, without the device. The answer is that of
the library that PyTorch loads, so it is right for its version; where there is none (a CPU build, an older cuDNN) the
caller falls back to a rule.
"""

import ctypes
import functools
import json
import os
import sys

# Descriptor types, attributes and attribute types of cuDNN's backend API (cudnn_graph.h), which keeps its numbers.
_CONVOLUTION, _ENGINEHEUR, _PLAN, _GRAPH, _TENSOR, _DEVICEPROP = 1, 4, 5, 15, 17, 38
_ENGINECFG = 3
_INT64, _BOOLEAN, _DATA_TYPE, _FLOAT, _CONV_MODE, _HEUR_MODE, _DESCRIPTOR, _CHAR = 3, 2, 1, 4, 7, 8, 15, 24
_NUMERICAL_NOTE = 11
_HEUR_INSTANT, _HEUR_FALLBACK = 0, 2
_CROSS_CORRELATION = 1
_DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
_NOTE_TENSOR_CORE, _NOTE_DOWN_CONVERT, _NOTE_NONDETERMINISTIC = 0, 1, 3
# Of each kind of convolution: descriptor type, attributes alpha, beta, convolution, w, x, y.
_KINDS = {
    "forward": (10, 700, 701, 702, 703, 704, 705),
    "backward_data": (12, 706, 707, 708, 709, 710, 711),
    "backward_filter": (11, 712, 713, 714, 715, 716, 717),
}


class Unavailable(Exception):
    """cuDNN is not there, is too old, or has no engine."""


class _Descriptor:
    def __init__(self, library, kind):
        self.library = library
        self.handle = ctypes.c_void_p()
        _check(library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.handle)), f"descriptor {kind}")

    def set(self, attribute, kind, values):
        _check(
            self.library.cudnnBackendSetAttribute(self.handle, attribute, kind, ctypes.c_int64(len(values)), values),
            f"attribute {attribute}",
        )

    def set_ints(self, attribute, values):
        self.set(attribute, _INT64, (ctypes.c_int64 * len(values))(*values))

    def set_int32(self, attribute, kind, value):
        self.set(attribute, kind, (ctypes.c_int32 * 1)(value))

    def set_descriptor(self, attribute, other):
        self.set(attribute, _DESCRIPTOR, (ctypes.c_void_p * 1)(other.handle))

    def finalize(self, what):
        _check(self.library.cudnnBackendFinalize(self.handle), what)
        return self

    def get_int64(self, attribute):
        value, count = ctypes.c_int64(), ctypes.c_int64()
        _check(
            self.library.cudnnBackendGetAttribute(
                self.handle, attribute, _INT64, ctypes.c_int64(1), ctypes.byref(count), ctypes.byref(value)
            ),
            f"attribute {attribute}",
        )
        return value.value

    def __del__(self):
        self.library.cudnnBackendDestroyDescriptor(self.handle)


def _check(status, what):
    if status != 0:
        raise Unavailable(f"cuDNN answers {status} for {what}")


@functools.lru_cache(maxsize=None)
def _library():
    for folder in sys.path:
        path = os.path.join(folder, "nvidia", "cudnn", "lib", "libcudnn.so.9")
        if os.path.exists(path):
            break
    else:
        path = "libcudnn.so.9"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Unavailable(str(error)) from None
    library.cudnnGetVersion.restype = ctypes.c_size_t
    if library.cudnnGetVersion() < 90800:
        raise Unavailable("cuDNN before 9.8 needs the device itself")
    return library


@functools.lru_cache(maxsize=None)
def _device(properties):
    device = _Descriptor(_library(), _DEVICEPROP)
    text = properties.encode() + b"\0"
    device.set(2702, _CHAR, text)
    return device.finalize("device properties")


def _tensor(name, dtype, shape, strides):
    tensor = _Descriptor(_library(), _TENSOR)
    tensor.set_int32(901, _DATA_TYPE, _DATA_TYPES[dtype])
    tensor.set_ints(902, shape)
    tensor.set_ints(903, strides)
    tensor.set_ints(906, [ord(name)])
    tensor.set_ints(900, [16])
    return tensor.finalize(f"tensor {name}")


def _convolution(dtype, padding, stride, dilation):
    convolution = _Descriptor(_library(), _CONVOLUTION)
    compute = "float64" if dtype == "float64" else "float32"
    convolution.set_int32(100, _DATA_TYPE, _DATA_TYPES[compute])
    convolution.set_int32(101, _CONV_MODE, _CROSS_CORRELATION)
    convolution.set_ints(106, [len(stride)])
    convolution.set_ints(102, dilation)
    convolution.set_ints(103, stride)
    convolution.set_ints(104, padding)
    convolution.set_ints(105, padding)
    return convolution.finalize("convolution")


def _graph(kind, dtype, x, w, y, padding, stride, dilation):
    number, alpha, beta, at_convolution, at_w, at_x, at_y = _KINDS[kind]
    operation = _Descriptor(_library(), number)
    operation.parts = (
        _convolution(dtype, padding, stride, dilation),
        _tensor("x", dtype, *x),
        _tensor("w", dtype, *w),
        _tensor("y", dtype, *y),
    )
    for attribute, part in zip((at_convolution, at_x, at_w, at_y), operation.parts):
        operation.set_descriptor(attribute, part)
    operation.set(alpha, _FLOAT, (ctypes.c_float * 1)(1.0))
    operation.set(beta, _FLOAT, (ctypes.c_float * 1)(0.0))
    operation.finalize(kind)
    graph = _Descriptor(_library(), _GRAPH)
    graph.operation = operation
    graph.set_descriptor(801, operation)
    return graph.finalize("operation graph")


def _engine_configs(graph, device, mode, limit=64):
    heuristics = _Descriptor(_library(), _ENGINEHEUR)
    heuristics.set_descriptor(201, graph)
    heuristics.set_int32(200, _HEUR_MODE, mode)
    heuristics.set_descriptor(204, device)
    heuristics.finalize("heuristics")
    configs = [_Descriptor(_library(), _ENGINECFG) for _ in range(limit)]
    array = (ctypes.c_void_p * limit)(*[config.handle for config in configs])
    count = ctypes.c_int64()
    _check(
        _library().cudnnBackendGetAttribute(
            heuristics.handle, 202, _DESCRIPTOR, ctypes.c_int64(limit), ctypes.byref(count), array
        ),
        "engine configurations",
    )
    return configs[: count.value]


def _plan_workspace(config, device):
    plan = _Descriptor(_library(), _PLAN)
    plan.set_descriptor(401, config)
    plan.set_descriptor(407, device)
    plan.finalize("execution plan")
    return plan.get_int64(402)


@functools.lru_cache(maxsize=None)
def convolution_workspace(properties, kind, dtype, x, w, y, padding, stride, dilation):
    """Bytes of workspace, as PyTorch has them without `cudnn.benchmark`: of the first engine that works.

    `properties` is JSON as cuDNN writes it; x, w and y are each (shape, strides), all tuples. Unavailable when cuDNN
    cannot say.
    """
    device = _device(properties)
    graph = _graph(kind, dtype, x, w, y, padding, stride, dilation)
    for mode in (_HEUR_INSTANT, _HEUR_FALLBACK):
        for config in _engine_configs(graph, device, mode):
            try:
                return _plan_workspace(config, device)
            except Unavailable:
                continue
    raise Unavailable(f"cuDNN has no engine for {kind} of {x}, {w}")
