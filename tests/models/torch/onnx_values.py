"""Values and gradients of exported models against PyTorch, computed in f64 from the weights that we draw:

    python3 tests/models/torch/onnx_values.py build/release/tests/model_eval resnet50.onnx gpt2.onnx ..

Needs torch, torchvision and transformers; files are named after the model in them, and may lack their weights. Prints a
line for each and exits 1 when values are more than 1e-4 off or gradients more than 1e-3 (of their norm). A ReLU within
rounding of zero falls either way, and batch norms of two samples make much of it: where PyTorch's own gradients in f32 are
further than that from those in f64, ours may be some times as far.
"""
import copy
import os
import pathlib
import sys
import tempfile

import torch
from torch.nn import functional as f

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from files import Evaluation, difference, write_safetensors

VALUES, GRADIENTS, TIMES = 1e-4, 1e-3, 8
BATCH, TOKENS = 2, 64


def make(name):
    if name in ("bert", "gpt2"):
        import transformers

        nothing = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0} if name == "bert" else {
            "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
        kind = transformers.BertForSequenceClassification if name == "bert" else transformers.GPT2LMHeadModel
        return kind(kind.config_class(**nothing)), lambda model, x: model(x.long()).logits
    import torchvision

    model = getattr(torchvision.models, name)()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0
    return model, lambda model, x: model(x)


def load(model, weights):
    """By name, without what the exporter's wrapper put in front; what is tied is there once."""
    given = {name.removeprefix("m."): value for name, value in weights.items()}
    missing, _ = model.load_state_dict({name: value for name, value in given.items() if name in model.state_dict()},
                                       strict=False)
    tied = {"lm_head.weight", "transformer.wte.weight"}
    kept = ("num_batches_tracked", "position_ids")
    lacking = [name for name in missing if not name.endswith(kept) and name not in tied]
    if lacking:
        raise SystemExit(f"the file has no {lacking[:3]}")


def gradients(model, forward, data):
    model.train()
    logits = forward(model, data["input"].to(next(model.parameters()).dtype))
    f.cross_entropy(logits.flatten(0, -2), data["target"].long().flatten()).backward()
    return {name: value.grad for name, value in model.named_parameters()}


def flat(values):
    return torch.cat([value.detach().flatten().double() for value in values])


def compare(binary, path):
    name = pathlib.Path(path).stem
    loss = "lm" if name == "gpt2" else "cross-entropy"
    tokens = {"sequence": TOKENS} if name in ("bert", "gpt2") else {}
    spec = {"model": path, "loss": loss, "sizes": {"batch": BATCH, **tokens}}
    trained = Evaluation(binary, "before", "after", "inputs", steps=1, **spec)
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "w.safetensors")
        write_safetensors(weights, trained["before"])
        infer = Evaluation(binary, "inputs", "outputs", weights=weights, **spec)
    model, forward = make(name)
    load(model, trained["before"])
    narrow = copy.deepcopy(model)
    model.double()
    with torch.no_grad():
        expected = forward(model.eval(), infer["inputs"]["input"].double())
    (found,) = infer["outputs"].values()
    values = (found.double() - expected).abs().max().item()
    right = gradients(model, forward, trained["inputs"])
    own = gradients(narrow, forward, trained["inputs"])
    velocities = {key.removeprefix("optimizer.").removeprefix("m.").removesuffix(".velocity"): value
                  for key, value in trained["after"].items() if key.endswith(".velocity")}
    names = [key for key in right if key in velocities]
    ours = difference(flat(velocities[key] for key in names), flat(right[key] for key in names))
    theirs = difference(flat(own[key] for key in names), flat(right[key] for key in names))
    good = values <= VALUES and ours <= max(GRADIENTS, TIMES * theirs if theirs > GRADIENTS else 0) and len(names) >= len(right) - 1
    print(f"{name}: values {values:.1e} off (largest {expected.abs().max():.2g}), {len(names)} of {len(right)} gradients "
          f"{ours:.1e} off, PyTorch's in f32 {theirs:.1e}{'' if good else '  FAILED'}", flush=True)
    return good


sys.exit(0 if all([compare(sys.argv[1], path) for path in sys.argv[2:]]) else 1)
