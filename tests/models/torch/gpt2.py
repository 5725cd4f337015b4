"""The forward pass of a small GPT-2 by its published names."""
import torch
from torch.nn import functional as f


def logits_of(p, tokens, heads, transposed=False):
    """Of token ids [batch, length]. Linear layers are [out, in], or `transposed` as the published files have them."""
    def linear(name, x):
        weight = p[f"{name}.weight"]
        return f.linear(x, weight.t() if transposed else weight, p[f"{name}.bias"])

    def norm(name, x):
        return f.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])

    batch, length = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:length]
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    layer = 0
    while f"h.{layer}.ln_1.weight" in p:
        block = f"h.{layer}"
        parts = linear(f"{block}.attn.c_attn", norm(f"{block}.ln_1", x)).chunk(3, 2)
        q, k, v = (part.reshape(batch, length, heads, -1).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        x = x + linear(f"{block}.attn.c_proj", mixed)
        hidden = linear(f"{block}.mlp.c_fc", norm(f"{block}.ln_2", x))
        cube = 0.7978845608028654 * (hidden + 0.044715 * hidden**3)
        x = x + linear(f"{block}.mlp.c_proj", 0.5 * hidden * (1 + torch.tanh(cube)))
        layer += 1
    return f.linear(norm("ln_f", x), p["wte.weight"])
