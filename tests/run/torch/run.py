"""Two training steps of whole models against PyTorch from the same weights, in f32: run.py TRAIN_EVAL. Exits 77
(skipped) where PyTorch is not installed."""
import json
import pathlib
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
from files import read_safetensors
from gpt2 import logits_of

TOLERANCE = 1e-4  # of the norm of each tensor


def batch_norm(p, name, x):
    return f.batch_norm(x, p[f"{name}.running_mean"], p[f"{name}.running_var"], p[f"{name}.weight"], p[f"{name}.bias"],
                        training=True)


def resnet18(p):
    def conv_norm(prefix, number, x, stride=1):
        weight = p[f"{prefix}conv{number}.weight"]
        return batch_norm(p, f"{prefix}bn{number}", f.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2))

    x = f.max_pool2d(torch.relu(conv_norm("", 1, p["x"], 2)), 3, 2, 1)
    for stage in range(1, 5):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in p:
            prefix = f"layer{stage}.{block}."
            stride = 2 if stage > 1 and block == 0 else 1
            block += 1
            y = conv_norm(prefix, 2, torch.relu(conv_norm(prefix, 1, x, stride)))
            if f"{prefix}downsample.0.weight" in p:
                x = batch_norm(p, f"{prefix}downsample.1", f.conv2d(x, p[f"{prefix}downsample.0.weight"], stride=stride))
            x = torch.relu(y + x)
    return f.cross_entropy(f.linear(x.mean((2, 3)), p["fc.weight"], p["fc.bias"]), p["target"])


def gpt(p):
    logits = logits_of(p, p["tokens"], heads=3)
    return f.cross_entropy(logits.flatten(0, 1), p["target"].flatten())


def p13(p):
    x = p["x"]
    for layer in range(1, 7):
        if layer in (3, 5):
            x = f.max_pool2d(x, 2)
        x = torch.relu(f.conv2d(x, p[f"conv{layer}.weight"], p[f"conv{layer}.bias"], padding=1))
    return f.mse_loss(f.linear(x.mean((2, 3)), p["dense.weight"], p["dense.bias"]), p["target"])


def torch_steps(model, values):
    """Trains in place; the velocities of the optimizer stand under their names afterwards, too."""
    trained = {name: value.requires_grad_() for name, value in values.items() if f"optimizer.{name}.velocity" in values}
    optimizer = torch.optim.SGD(trained.values(), lr=1e-4, momentum=0.9)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(values)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for name, value in trained.items():
        values[f"optimizer.{name}.velocity"] = optimizer.state[value]["momentum_buffer"]
    return losses


def difference(found, expected):
    scale = expected.double().norm().item()
    return (found.double() - expected.double()).norm().item() / (scale or 1)


def compare(model, name, *arguments, gradients=True):
    """Losses, parameters, state, and the velocities of the optimizer, which are sums of gradients. Without gradients:
    losses and what did not start at zero. A ReLU whose operand is within rounding of zero may fall either way; in deep
    models PyTorch's own f32 gradients are up to 8e-3 away from those that it computes in f64."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = pathlib.Path(folder, "before"), pathlib.Path(folder, "after")
        command = [sys.argv[1], name, arguments[0], before, after, *arguments[1:]]
        losses = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        values, found = read_safetensors(before), read_safetensors(after)
    compared = [key for key in found if gradients or values[key].any()]
    expected = torch_steps(model, values)
    worst = {"loss": max(abs(a - b) / abs(b) for a, b in zip(losses, expected))}
    for key in compared:
        worst[key] = difference(found[key], values[key].detach())
    key = max(worst, key=worst.get)
    print(f"{name}: losses {losses}, PyTorch {expected}; {len(compared)} tensors, at most {worst[key]:.1e} off ({key})")
    return worst[key] <= TOLERANCE


torch.manual_seed(1)
results = [
    compare(p13, "p13", "small", "batch=3"),
    compare(gpt, "gpt2-nano", "full", "batch=2", "sequence=24"),
    compare(resnet18, "resnet18", "small", "batch=3"),
    compare(resnet18, "resnet18", "full", "batch=2", gradients=False),
]
sys.exit(0 if all(results) else 1)
