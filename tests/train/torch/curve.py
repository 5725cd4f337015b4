"""GPT-2 nano on a text file, against PyTorch: curve.py PLIMSOLL [STEPS]. PyTorch starts from the weights that plimsoll
wrote, sees the same batches and trains with the same AdamW; each step's loss must be within 1 %. Then plimsoll goes on
from what PyTorch wrote, and both evaluate alike. Exits 77 (skipped) where PyTorch is not installed."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("PyTorch is not installed (python3-torch): skipped")
    sys.exit(77)
from torch.nn import functional as f

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models/torch"))
from files import read_safetensors, write_safetensors
from gpt2 import logits_of

BATCH, LENGTH, HEADS, RATE, DECAY, CLIP = 4, 16, 3, 3e-4, 0.01, 1.0
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
TOLERANCE = 0.01


def loss_of(p, windows):
    logits = logits_of(p, windows[:, :-1], HEADS, transposed=True)
    return f.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def windows_of(tokens):
    """Sample i is the tokens from i * LENGTH on, its targets the ones after each."""
    count = (len(tokens) - 1) // LENGTH
    return torch.stack([tokens[i * LENGTH : i * LENGTH + LENGTH + 1] for i in range(count)])


def text_tokens():
    """The project's own documents, a token for each byte."""
    root = pathlib.Path(__file__).resolve().parents[3]
    content = b"".join(path.read_bytes() for path in sorted((root / "docs").glob("*.md")))
    return content[: (STEPS * BATCH // 2) * LENGTH + 1]  # so that the data is seen twice


def plimsoll(*arguments):
    command = [sys.argv[1], "train", "gpt2-nano", "--batch", str(BATCH), "--seq", str(LENGTH), "--optimizer", "adamw",
               "--weight-decay", str(DECAY), "--clip", str(CLIP), "--dropout", "0", "--no-shuffle",
               "--no-measure", "--threads", "1", "--budget", "1GiB", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def torch_run(weights, windows):
    p = {name: value.clone().requires_grad_() for name, value in weights.items()}
    optimizer = torch.optim.AdamW(p.values(), lr=RATE, weight_decay=DECAY)
    losses = []
    per_epoch = len(windows) // BATCH
    for step in range(STEPS):
        first = step % per_epoch * BATCH
        optimizer.zero_grad()
        loss = loss_of(p, windows[first : first + BATCH])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return p, losses


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        content = text_tokens()
        (folder / "text.bin").write_bytes(b"".join(struct.pack("<H", byte) for byte in content))
        data = ["--data", folder / "text.bin"]
        # A rate of zero changes nothing: the weights that every run of this seed begins with.
        plimsoll(*data, "--steps", 1, "--lr", 0, "--save", folder / "start.safetensors")
        log = folder / "log.jsonl"
        plimsoll(*data, "--steps", STEPS, "--lr", RATE, "--log", log, "--weights", folder / "start.safetensors",
                 "--eval-data", folder / "text.bin", "--eval-every", 10 * STEPS)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        found = [line["loss"] for line in lines if "loss" in line]
        evaluated = [line["eval_loss"] for line in lines if "eval_loss" in line][-1]
        windows = windows_of(torch.tensor(list(content)))
        p, expected = torch_run(read_safetensors(folder / "start.safetensors"), windows)
        write_safetensors(folder / "torch.safetensors", p)
        text = plimsoll(*data, "--steps", 1, "--lr", 0, "--weights", folder / "torch.safetensors",
                        "--eval-data", folder / "text.bin", "--json")
        back = json.loads(text[text.index("{") :])
        with torch.no_grad():
            chunks = windows.split(16)
            whole = sum(loss_of(p, chunk).item() * len(chunk) for chunk in chunks) / len(windows)
    worst = max(abs(a - b) / b for a, b in zip(found, expected))
    print(f"{STEPS} steps: loss {found[0]:.4f} to {found[-1]:.4f}, PyTorch {expected[0]:.4f} to {expected[-1]:.4f}; "
          f"at most {worst:.2%} apart")
    print(f"evaluation: {evaluated:.4f}; PyTorch's weights: {back['eval_loss']:.4f} here, {whole:.4f} there")
    ok = len(found) == STEPS and worst <= TOLERANCE and found[-1] < 0.6 * found[0]
    ok = ok and abs(back["eval_loss"] - whole) <= 1e-3 * whole and abs(evaluated - whole) <= TOLERANCE * whole
    sys.exit(0 if ok else 1)


os.environ.setdefault("XDG_CACHE_HOME", tempfile.gettempdir())
if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
