"""Files of weights in plain Python, and model_eval, which reads and writes them."""
import json
import pathlib
import struct
import subprocess
import tempfile

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


def read_safetensors(path):
    content = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, info in json.loads(content[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        data = bytearray(content[8 + size + begin : 8 + size + end])
        empty = torch.empty(0, dtype=DTYPES[info["dtype"]])
        flat = torch.frombuffer(data, dtype=DTYPES[info["dtype"]]) if data else empty
        tensors[name] = flat.reshape(info["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, data = {}, []
    place = 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        dtype = next(key for key, value in DTYPES.items() if value == tensor.dtype)
        raw = bytes(tensor.flatten().view(torch.uint8).numpy()) if tensor.numel() else b""
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [place, place + len(raw)]}
        data.append(raw)
        place += len(raw)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


class Evaluation:
    """One call of model_eval: its losses, and the files that were asked for."""

    def __init__(self, binary, *files, **spec):
        with tempfile.TemporaryDirectory() as folder:
            paths = {key: str(pathlib.Path(folder, key)) for key in files}
            command = [binary, json.dumps({**spec, **paths})]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip())
            self.losses = json.loads(done.stdout)
            self.files = {key: read_safetensors(path) for key, path in paths.items()}

    def __getitem__(self, key):
        return self.files[key]


def difference(found, expected):
    """Of all elements together, by the norm of what is expected."""
    scale = expected.double().norm().item()
    return (found.double() - expected.double()).norm().item() / (scale or 1)
