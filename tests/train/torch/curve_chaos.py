"""How far GPT-2 nano's losses part at a learning rate by rounding alone: curve_chaos.py PLIMSOLL [STEPS]. Trains with
plimsoll, with PyTorch in f32 and f64, and from weights that differ by 1e-7 of their size; prints the largest difference
of a step's loss for each pair. A measurement, not a test: docs/training.md has its figures."""
import json
import pathlib
import struct
import tempfile

import torch

import curve

NOISE = 1e-7


def perturbed(weights):
    draw = torch.Generator().manual_seed(0)
    return {name: value * (1 + NOISE * torch.randn(value.shape, generator=draw)) for name, value in weights.items()}


def apart(found, expected):
    return max(abs(a - b) / b for a, b in zip(found, expected))


def plimsoll_losses(folder, data, rate):
    log = folder / f"{rate}.jsonl"
    curve.plimsoll(*data, "--steps", curve.STEPS, "--lr", rate, "--log", log, "--weights", folder / "start.safetensors")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        content = curve.text_tokens()
        (folder / "text.bin").write_bytes(b"".join(struct.pack("<H", byte) for byte in content))
        data = ["--data", folder / "text.bin"]
        curve.plimsoll(*data, "--steps", 1, "--lr", 0, "--save", folder / "start.safetensors")
        weights = curve.read_safetensors(folder / "start.safetensors")
        windows = curve.windows_of(torch.tensor(list(content)))
        for curve.RATE in (3e-4, 1e-3):
            ours = plimsoll_losses(folder, data, curve.RATE)
            f32 = curve.torch_run(weights, windows)[1]
            f64 = curve.torch_run({name: value.double() for name, value in weights.items()}, windows)[1]
            other = curve.torch_run(perturbed(weights), windows)[1]
            print(f"lr {curve.RATE}: plimsoll and f32 {apart(ours, f32):.2e}, plimsoll and f64 {apart(ours, f64):.2e}, "
                  f"f32 and f64 {apart(f32, f64):.2e}, f32 and f32 perturbed {apart(other, f32):.2e}")


torch.set_num_threads(1)
main()
