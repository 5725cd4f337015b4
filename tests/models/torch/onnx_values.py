"""Values and gradients of exported models against PyTorch, computed in f64 from the weights that we draw:

    python3 tests/models/torch/onnx_values.py build/release/tests/model_eval resnet50.onnx gpt2.onnx ..

Needs torch, torchvision, transformers and onnx; files are named after the model in them, and may lack their weights. Prints
a line for each and exits 1 when a value is more than 1e-4 off, or gradients more than 1e-3: the norm of the difference
over all parameters, by the norm of PyTorch's.

Batch norms that take the statistics of two samples make so much of rounding that PyTorch's own gradients in f32 are up to
3e-2 from those in f64 (printed). Models that have them are compared twice instead: in f32 with the running statistics,
by the kernels, and in f64 with those of the batch, by the reference evaluator on the same training step and small images.
"""
import copy
import os
import pathlib
import sys
import tempfile

import onnx
import torch
from torch.nn import functional as f

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from files import Evaluation, difference, write_safetensors

VALUES, GRADIENTS = 1e-4, 1e-3
BATCH, TOKENS, SMALL_IMAGE = 2, 64, 64


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


def has_batch_norms(model):
    return any(isinstance(part, torch.nn.BatchNorm2d) for part in model.modules())


def load(model, weights):
    """By name, without what the exporter's wrapper put in front; what is tied is there once."""
    given = {name.removeprefix("m."): value for name, value in weights.items()}
    missing, _ = model.load_state_dict({name: value for name, value in given.items() if name in model.state_dict()},
                                       strict=False)
    tied = {"lm_head.weight", "transformer.wte.weight"}
    kept = ("num_batches_tracked", "position_ids", "running_mean", "running_var")
    lacking = [name for name in missing if not name.endswith(kept) and name not in tied]
    if lacking:
        raise SystemExit(f"the file has no {lacking[:3]}")


def with_running_statistics(source, target):
    """The file with each batch norm as a product and a sum of its parameters: means are 0 and variances 1."""
    file = onnx.load(source, load_external_data=False)
    nodes = list(file.graph.node)
    del file.graph.node[:]
    file.graph.initializer.append(onnx.numpy_helper.from_array(torch.tensor([-1, 1, 1]).numpy(), "per_channel"))
    for i, node in enumerate(nodes):
        if node.op_type != "BatchNormalization":
            file.graph.node.append(node)
            continue
        epsilon = next((one.f for one in node.attribute if one.name == "epsilon"), 1e-5)
        scale = torch.tensor((1 + epsilon) ** -0.5)
        file.graph.initializer.append(onnx.numpy_helper.from_array(scale.numpy(), f"scale_{i}"))
        x, weight, bias = node.input[:3]
        made = [("Reshape", [weight, "per_channel"], f"weight_{i}"), ("Reshape", [bias, "per_channel"], f"bias_{i}"),
                ("Mul", [x, f"weight_{i}"], f"product_{i}"), ("Mul", [f"product_{i}", f"scale_{i}"], f"scaled_{i}"),
                ("Add", [f"scaled_{i}", f"bias_{i}"], node.output[0])]
        file.graph.node.extend(onnx.helper.make_node(op, given, [result]) for op, given, result in made)
    onnx.save(file, target)


def gradients(model, forward, data, training=True):
    model = model.train(training)
    model.zero_grad()
    logits = forward(model, data["input"].to(next(model.parameters()).dtype))
    f.cross_entropy(logits.flatten(0, -2), data["target"].long().flatten()).backward()
    return {name: value.grad.clone() for name, value in model.named_parameters()}


def off(found, expected):
    """The relative norm of the difference; all but one (a head that is tied) must be there."""
    names = [name for name in expected if name in found]
    if len(names) < len(expected) - 1:
        raise SystemExit(f"only {len(names)} of {len(expected)} gradients are there")
    flat = lambda values: torch.cat([values[name].detach().flatten().double() for name in names])
    return difference(flat(found), flat(expected))


def velocities(evaluation):
    """After one step of momentum: the gradients."""
    return {key.removeprefix("optimizer.").removeprefix("m.").removesuffix(".velocity"): value
            for key, value in evaluation["after"].items() if key.endswith(".velocity")}


class Comparison:
    def __init__(self, binary, path, folder):
        self.binary, self.path, self.folder = binary, path, pathlib.Path(folder)
        self.name = pathlib.Path(path).stem
        tokens = {"sequence": TOKENS} if self.name in ("bert", "gpt2") else {}
        self.spec = {"model": path, "loss": "lm" if self.name == "gpt2" else "cross-entropy",
                     "sizes": {"batch": BATCH, **tokens}}
        self.model, self.forward = make(self.name)

    def train(self, training=True, **more):
        """Our gradients, PyTorch's in f64 and how far those in f32 are from them."""
        ours = Evaluation(self.binary, "before", "after", "inputs", steps=1, **{**self.spec, **more})
        load(self.model, ours["before"])
        narrow = copy.deepcopy(self.model)
        wide = gradients(copy.deepcopy(self.model).double(), self.forward, ours["inputs"], training)
        own = gradients(narrow, self.forward, ours["inputs"], training)
        self.weights = ours["before"]
        return off(velocities(ours), wide), off(own, wide)

    def values(self):
        weights = str(self.folder / "w.safetensors")
        write_safetensors(weights, self.weights)
        ours = Evaluation(self.binary, "inputs", "outputs", weights=weights, **self.spec)
        with torch.no_grad():
            expected = self.forward(copy.deepcopy(self.model).double().eval(), ours["inputs"]["input"].double())
        (found,) = ours["outputs"].values()
        return (found.double() - expected).abs().max().item(), expected.abs().max().item()

    def run(self):
        gradient_errors = {}
        if has_batch_norms(self.model):
            path = str(self.folder / f"{self.name}.onnx")
            with_running_statistics(self.path, path)
            gradient_errors["with running statistics"] = self.train(training=False, model=path)[0]
            shapes = {"input": ["batch", 3, SMALL_IMAGE, SMALL_IMAGE]}
            gradient_errors["in f64"] = self.train(shapes=shapes, reference=True)[0]
            stray = "{:.1e} off with statistics of the batch in f32, PyTorch's {:.1e}".format(*self.train())
        else:
            gradient_errors["in f32"], own = self.train()
            stray = f"PyTorch's in f32 {own:.1e}"
        error, largest = self.values()
        good = error <= VALUES and all(error <= GRADIENTS for error in gradient_errors.values())
        text = ", ".join(f"{value:.1e} {what}" for what, value in gradient_errors.items())
        print(f"{self.name}: values {error:.1e} off (largest {largest:.2g}), gradients {text} ({stray})"
              f"{'' if good else '  FAILED'}", flush=True)
        return good


def compare(binary, path):
    with tempfile.TemporaryDirectory() as folder:
        return Comparison(binary, path, folder).run()


sys.exit(0 if all([compare(sys.argv[1], path) for path in sys.argv[2:]]) else 1)
