"""Writes tests/data/onnx: small graphs of PyTorch's two exporters, one for each pattern that is put together again.

    python3 tests/models/torch/export_patterns.py tests/data/onnx

Needs torch, onnx and onnxscript. Files are NAME.torchscript.onnx and NAME.dynamo.onnx, without what exporters note about
the source."""
import contextlib
import io
import pathlib
import sys
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional as f

WIDE, HEADS, TOKENS = 16, 2, 12
TORCHSCRIPT_OPSET, DYNAMO_OPSET = 14, 18  # the older has no op for layer norm


class Function(nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def rotate(x):
    """By tables that are computed in the graph, half of each head against the other."""
    angles = torch.arange(x.shape[2], dtype=x.dtype)[:, None] / 100 ** (torch.arange(0, x.shape[3], 2) / x.shape[3])
    angles = torch.cat([angles, angles], -1)
    half = x.shape[3] // 2
    return x * angles.cos() + torch.cat([-x[..., half:], x[..., :half]], -1) * angles.sin()


def attention(m, x, mask=None, causal=False, rotary=False, manual=False):
    q, k, v = heads(m.q(x), HEADS), heads(m.k(x), m.groups), heads(m.v(x), m.groups)
    if rotary:
        q, k = rotate(q), rotate(k)
    if m.groups < HEADS:
        k, v = (one[:, :, None].expand(-1, -1, HEADS // m.groups, -1, -1).flatten(1, 2) for one in (k, v))
    if mask is not None:
        mask = mask[:, None, None, :] != 0
    if manual:
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(x.dtype).min)
        y = scores.softmax(-1) @ v
    else:
        y = f.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    return m.o(y.transpose(1, 2).flatten(2))


def attention_model(groups=HEADS, **options):
    narrow = WIDE // HEADS * groups
    made = Function(lambda m, x, mask=None: attention(m, x, mask, **options), q=nn.Linear(WIDE, WIDE),
                    k=nn.Linear(WIDE, narrow), v=nn.Linear(WIDE, narrow), o=nn.Linear(WIDE, WIDE))
    made.groups = groups
    return made


def rms_norm(m, x):
    """As Llama writes it."""
    return m.norm.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


LINE, IMAGE = torch.randn(2, TOKENS, WIDE), torch.randn(2, 4, 6, 6)
MASK = torch.ones(2, TOKENS, dtype=torch.long)
PATTERNS = {
    "gelu_erf": (nn.GELU(), LINE),
    "gelu_tanh": (nn.GELU("tanh"), LINE),
    "silu": (nn.SiLU(), LINE),
    "layer_norm": (nn.LayerNorm(WIDE), LINE),
    "rms_norm": (Function(rms_norm, norm=nn.LayerNorm(WIDE, bias=False)), LINE),
    "linear": (nn.Linear(WIDE, 8), LINE),
    "attention": (attention_model(), LINE),
    "attention_causal": (attention_model(causal=True), LINE),
    "attention_mask": (attention_model(), LINE, MASK),
    "attention_mask_eager": (attention_model(manual=True), LINE, MASK),
    "attention_grouped_rotary": (attention_model(groups=1, rotary=True), LINE),
    "residual": (Function(lambda m, x: (x + m.conv(x)).relu(), conv=nn.Conv2d(4, 4, 3, padding=1)), IMAGE),
    "cross_entropy": (Function(lambda m, x, target: f.cross_entropy(m.fc(x), target), fc=nn.Linear(WIDE, 5)),
                      torch.randn(3, WIDE), torch.tensor([1, 4, 0])),
}


def strip(path):
    """Without the notes of exporters, and with weights inside."""
    model = onnx.load(path)
    del model.metadata_props[:], model.graph.value_info[:], model.graph.metadata_props[:]
    model.doc_string = ""
    for item in [*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        item.doc_string = ""
        del item.metadata_props[:]
    onnx.save(model, path)


def export(name, folder):
    torch.manual_seed(0)
    model, *inputs = PATTERNS[name]
    names = ["x", "mask" if name.startswith("attention") else "target"][: len(inputs)]
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        path = str(folder / f"{name}.torchscript.onnx")
        torch.onnx.export(model.eval(), tuple(inputs), path, dynamo=False, opset_version=TORCHSCRIPT_OPSET,
                          input_names=names, dynamic_axes={one: {0: "batch"} for one in names})
        strip(path)
        path = str(folder / f"{name}.dynamo.onnx")
        torch.onnx.export(model.eval(), tuple(inputs), path, dynamo=True, opset_version=DYNAMO_OPSET, input_names=names,
                          external_data=False, verbose=False,
                          dynamic_shapes=({0: torch.export.Dim.DYNAMIC},) * len(inputs) if not isinstance(model, Function)
                          else ((({0: torch.export.Dim.DYNAMIC},) * len(inputs)),))
        strip(path)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for pattern in sys.argv[2:] or PATTERNS:
        export(pattern, target)
        print(pattern, flush=True)
