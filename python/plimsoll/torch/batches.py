"""A batch in micro-batches: any nesting of tuples, lists and dicts with tensors whose first axis is the batch."""

import math


def size_of(batch):
    """Samples in the batch: the first axis of its first tensor that has one."""
    for tensor in _tensors(batch):
        if tensor.dim() > 0:
            return tensor.shape[0]
    raise TypeError(f"batch is a {type(batch).__name__} without tensors: expected tensors with the batch as first axis")


def split(batch, parts):
    """At most `parts` micro-batches of the same size, the last one smaller where it does not come out even."""
    samples = size_of(batch)
    size = math.ceil(samples / parts)
    return [_slice(batch, samples, begin, begin + size) for begin in range(0, samples, size)]


def _tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _slice(value, samples, begin, end):
    """Tensors that do not have the batch as first axis go to every micro-batch."""
    import torch

    if isinstance(value, torch.Tensor):
        return value[begin:end] if value.dim() > 0 and value.shape[0] == samples else value
    if isinstance(value, dict):
        return {key: _slice(part, samples, begin, end) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_slice(part, samples, begin, end) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_slice(part, samples, begin, end) for part in value)
    return value
