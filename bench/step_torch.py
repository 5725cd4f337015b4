"""One training step of a model in PyTorch, again for every line on standard input: the peer of bench/step.cc.

usage: step_torch.py CASE THREADS FORMAT CLOCK PRECISION MODE

FORMAT is contiguous or channels_last, CLOCK wall or cpu, PRECISION f32, or bf16 or f16 for autocast, MODE eager or
compile. PLIMSOLL_MAX_ISA (sse4, avx2, avx512) limits PyTorch's vector instructions as it does ours.

Prints "ready VERSIONS", then for each line "MILLISECONDS BYTES": what the step took, and by how many bytes the process
has grown at its largest since before the model was made.
"""
import os
import re
import sys
import time

# For PyTorch's own loops, oneDNN, MKL and OpenBLAS, which read them when they are loaded; the bits in a vector for
# torch.compile.
LIMITS = {
    "sse4": ("default", "SSE41", "SSE4_2", "Nehalem", 1),
    "avx2": ("avx2", "AVX2", "AVX2", "Haswell", 256),
    "avx512": ("avx512", "AVX512_CORE_BF16", "AVX512", "SkylakeX", 512),
}
LIMIT = LIMITS.get(os.environ.get("PLIMSOLL_MAX_ISA", ""))
if LIMIT:
    variables = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE")
    os.environ.update(zip(variables, LIMIT))

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv3(inputs, outputs, padding=1):
    return nn.Conv2d(inputs, outputs, 3, padding=padding)


class P11(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = conv3(3, 32, padding=0)
        self.dense = nn.Linear(32 * 63 * 63, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.softmax(self.dense(x.flatten(1)), dim=1)


class Wide(nn.Module):
    """Convolutions of these widths; 0 halves the image."""

    def __init__(self, widths):
        super().__init__()
        layers, inputs = [], 3
        for width in widths:
            layers += [nn.MaxPool2d(2)] if width == 0 else [conv3(inputs, width), nn.ReLU()]
            inputs = width or inputs
        self.layers = nn.Sequential(*layers)
        self.dense = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.dense(self.layers(x).mean((2, 3)))


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for stage in range(4):
            for block in range(2):
                blocks.append(BasicBlock(inputs, 64 << stage, 2 if stage and not block else 1))
                inputs = 64 << stage
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


def attend(q, k, v, hidden):
    if hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2 on
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = (q @ k.transpose(2, 3)) * (q.shape[-1] ** -0.5)
    return F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ v


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, hidden):
        batch, sequence, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (p.view(batch, sequence, self.heads, -1).transpose(1, 2) for p in parts)
        y = attend(q, k, v, hidden)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers=6, width=384, heads=6, tokens=8192, positions=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        self.register_buffer("hidden", torch.ones(positions, positions).triu(1).bool())

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.hidden)
        return F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1)


def images(batch, size):
    return torch.rand(batch, 3, size, size) * 2 - 1


def classes(count, of):
    return torch.randint(of, (count,))


CASES = {
    "p11": (P11, lambda: (images(32, 128), torch.rand(32, 10)), F.mse_loss),
    "p14": (lambda: Wide([64, 0, 128]), lambda: (images(32, 128), torch.rand(32, 10)), F.mse_loss),
    "p13": (
        lambda: Wide([256, 256, 0, 512, 512, 0, 1024, 1024]),
        lambda: (images(4, 128), torch.rand(4, 10)),
        F.mse_loss,
    ),
    "resnet18": (ResNet18, lambda: (images(16, 224), classes(16, 1000)), F.cross_entropy),
    "gpt": (Gpt, lambda: (torch.randint(8192, (8, 256)), classes(2048, 8192)), F.cross_entropy),
}


def status_bytes(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no " + field)


def adam(parameters):
    parameters = list(parameters)
    try:
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)
    except (RuntimeError, TypeError, ValueError):  # before PyTorch 2.4 not on the CPU
        return torch.optim.Adam(parameters, lr=1e-3)


def compiled(model):
    if LIMIT:
        from torch._inductor import config  # not "import torch...", which would make torch a local name

        config.cpp.simdlen = LIMIT[-1]
    return torch.compile(model)


def versions():
    found = re.search(r"DNN v([0-9.]+)", torch.__config__.show())
    return f"PyTorch {torch.__version__}" + (f" with oneDNN {found[1]}" if found else "")


def main():
    case, threads, layout, kind, precision, mode = sys.argv[1:7]
    lower = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision)
    clock = time.perf_counter if kind == "wall" else time.process_time
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    torch.rand(64, 64) @ torch.rand(64, 64)  # the libraries are loaded and their threads started
    open("/proc/self/clear_refs", "w").write("5")  # the high-water mark starts here
    before = status_bytes("VmRSS")
    make, data, loss_of = CASES[case]
    model, (x, target) = make(), data()
    if layout == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = adam(model.parameters())
    run = compiled(model) if mode == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=lower or torch.bfloat16, enabled=lower is not None):
            loss = loss_of(run(x), target)
        loss.backward()
        optimizer.step()

    if mode == "compile":
        step()  # it is compiled here
    print("ready", versions(), flush=True)
    for _ in sys.stdin:
        start = clock()
        step()
        print((clock() - start) * 1e3, status_bytes("VmHWM") - before, flush=True)


if __name__ == "__main__":
    main()
