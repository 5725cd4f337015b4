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

BATCH, LENGTH, HEADS, RATE, DECAY, CLIP = 4, 16, 3, 3e-4, 0.01, 1.0
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
TOLERANCE = 0.01
DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, info in json.loads(content[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        data = bytearray(content[8 + size + begin : 8 + size + end])
        tensors[name] = torch.frombuffer(data, dtype=DTYPES[info["dtype"]]).reshape(info["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def gpt(p, tokens):
    """Linear layers are [in, out], as the published files have them."""
    def linear(name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    def norm(name, x):
        return f.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])

    batch, length = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:length]
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    layer = 0
    while f"h.{layer}.ln_1.weight" in p:
        block = f"h.{layer}"
        parts = linear(f"{block}.attn.c_attn", norm(f"{block}.ln_1", x)).chunk(3, 2)
        q, k, v = (part.reshape(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        x = x + linear(f"{block}.attn.c_proj", mixed)
        hidden = linear(f"{block}.mlp.c_fc", norm(f"{block}.ln_2", x))
        x = x + linear(f"{block}.mlp.c_proj", 0.5 * hidden * (1 + torch.tanh(0.7978845608028654 * (hidden + 0.044715 * hidden**3))))
        layer += 1
    return f.linear(norm("ln_f", x), p["wte.weight"])


def loss_of(p, windows):
    logits = gpt(p, windows[:, :-1])
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
