"""State dicts, adapters and exports of whole models against PyTorch: run.py MODEL_EVAL. Exits 77 (skipped) where
PyTorch is not installed."""
import json
import pathlib
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError:
    print("PyTorch is not installed (python3-torch): skipped")
    sys.exit(77)
from torch.nn import functional as f

from files import Evaluation, difference, read_safetensors, write_safetensors
from peers import Bert, Gpt2, ResNet18, Vit, randomize

BINARY = sys.argv[1]
FAILURES = []


def check(what, error, most):
    print(f"{what}: {error:.1e} off, at most {most:.0e}")
    if not error <= most:
        FAILURES.append(what)


def inputs_of(evaluation):
    """By the last part of their names, as integers where they are."""
    inputs = {name.split(".")[-1]: value for name, value in evaluation["inputs"].items()}
    return {name: value if name == "x" else value.long() for name, value in inputs.items()}


# ---- state dicts ----


def write_index(path, tensors):
    """Two files and the index that names them."""
    names = list(tensors)
    parts = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, own in parts.items():
        write_safetensors(path.parent / file, {name: tensors[name] for name in own})
    places = {name: file for file, own in parts.items() for name in own}
    path.write_text(json.dumps({"weight_map": places}))


def write_npz(path, tensors, write=numpy.savez):
    write(path, **{name: tensor.numpy() for name, tensor in tensors.items()})


WRITERS = {
    "w.safetensors": write_safetensors,
    "w.json": write_index,
    "w.npz": write_npz,
    "deflated.npz": lambda path, tensors: write_npz(path, tensors, numpy.savez_compressed),
    "w.pt": lambda path, tensors: torch.save(tensors, path),
    "checkpoint.pth": lambda path, tensors: torch.save({"epoch": 3, "state_dict": tensors}, path),
}


def compare_logits(name, model, names, files=WRITERS, **spec):
    """Of the model's state dict in each kind of file."""
    model.eval()
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, file)
            WRITERS[file](path, model.state_dict())
            found = Evaluation(BINARY, "inputs", "outputs", model=name, weights=str(path), **spec)
        values = inputs_of(found)
        with torch.no_grad():
            expected = model(*(values[key] for key in names))
        (logits,) = found["outputs"].values()
        check(f"{name}: logits of {file}", (logits - expected).abs().max().item(), 1e-4)


def compare_lower_precision(name, model, key, **spec):
    """A file of bf16 gives the rounded weights."""
    rounded = {name: value.bfloat16() if value.is_floating_point() else value for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.float() for name, value in rounded.items()})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "half.safetensors")
        write_safetensors(path, rounded)
        found = Evaluation(BINARY, "inputs", "outputs", model=name, weights=str(path), **spec)
    with torch.no_grad():
        expected = model.eval()(inputs_of(found)[key])
    (logits,) = found["outputs"].values()
    check(f"{name}: logits of weights in bf16", (logits - expected).abs().max().item(), 1e-4)


def train(model, loss_of, optimizer, steps):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def worst_loss(found, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected))


def compare_training(name, model, saved_as, key, rate, most, **spec):
    """Two steps; what is saved is loaded back into a model of PyTorch's."""
    before = {name: value.clone() for name, value in saved_as(model).state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "w.pt")
        torch.save(model.state_dict(), path)
        found = Evaluation(BINARY, "inputs", "save", model=name, weights=str(path), steps=2, rate=rate, **spec)
    values = inputs_of(found)
    loss_of = lambda model: f.cross_entropy(model(values[key]).flatten(0, -2), values["target"].flatten())
    losses = train(model.train(), loss_of, torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9), 2)
    check(f"{name}: losses of two steps", worst_loss(found.losses, losses), most)
    trained = {name: value.clone() for name, value in saved_as(model).state_dict().items()}
    saved_as(model).load_state_dict(found["save"])
    floats = [key for key, value in before.items() if value.is_floating_point()]
    loaded = saved_as(model).state_dict()
    flat = lambda values: torch.cat([values[key].flatten().double() for key in floats])
    check(f"{name}: saved weights", difference(flat(loaded), flat(trained)), 1e-4)
    changes = difference(flat(loaded) - flat(before), flat(trained) - flat(before))
    check(f"{name}: what two steps changed", changes, most)


# ---- adapters ----


class LoraGpt2(Gpt2):
    """y = x w + scale * (x a') b' beside each layer, the weights themselves frozen."""

    def adapt(self, start, scale):
        self.scale = scale
        self.adapters = {name: value.clone().requires_grad_() for name, value in start.items()
                         if name.endswith((".lora_a", ".lora_b"))}
        return self

    def beside(self, name, x):
        a, b = self.adapters[f"{name}.weight.lora_a"], self.adapters[f"{name}.weight.lora_b"]
        return self.scale * f.linear(f.linear(x, a), b)

    def layer(self, module, name, x):
        return module(x) + self.beside(name, x)

    def head(self, x):
        return super().head(x) + self.beside("wte", x)


def compare_lora(optimizer, rate, make):
    """Ten steps: losses and adapters."""
    model = randomize(LoraGpt2(), 0.3).requires_grad_(False)
    spec = {"model": "gpt2-nano", "sizes": {"batch": 2, "sequence": 16}, "optimizer": optimizer, "rate": rate}
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder, "w.npz"))
        write_npz(path, model.state_dict())
        found = Evaluation(BINARY, "inputs", "before", "after", weights=path, lora="r=4,alpha=8", steps=10, **spec)
    values = inputs_of(found)
    model.adapt(found["before"], scale=2)
    loss_of = lambda model: f.cross_entropy(model(values["tokens"]).flatten(0, 1), values["target"].flatten())
    losses = train(model, loss_of, make(model.adapters.values()), 10)
    check(f"LoRA with {optimizer}: losses of ten steps", worst_loss(found.losses, losses), 1e-3)
    if not losses[-1] < losses[0]:
        FAILURES.append(f"LoRA with {optimizer} does not learn: {losses}")
    flat = lambda values: torch.cat([values[key].detach().flatten() for key in model.adapters])
    check(f"LoRA with {optimizer}: adapters", difference(flat(found["after"]), flat(model.adapters)), 1e-3)


def compare_first_loss(precision, most):
    """With adapters and without, from the values that are drawn."""
    spec = {"model": "gpt2-nano", "sizes": {"batch": 2, "sequence": 16}, "steps": 1, "precision": precision}
    plain = Evaluation(BINARY, **spec)
    adapted = Evaluation(BINARY, lora="r=4", **spec)
    check(f"LoRA: first loss in {precision}", worst_loss(adapted.losses, plain.losses), most)


# ---- exports ----


def compare_export(what, model, arguments, names, loss, **sizes):
    """The values of an export in inference, the gradients of one in training: the first velocities of momentum."""
    model.eval()
    kinds = [argument.dtype for argument in arguments]
    given = lambda found: [found["inputs"][name].to(kind) for name, kind in zip(names, kinds)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder, "model.onnx"))
        options = {"input_names": names, "output_names": ["output"], "do_constant_folding": False,
                   "dynamic_axes": {name: {0: "batch"} for name in names}}
        if "dynamo" in torch.onnx.export.__code__.co_varnames:
            options["dynamo"] = False
        torch.onnx.export(model, arguments, path, **options)
        infer = Evaluation(BINARY, "inputs", "outputs", model=path, sizes=sizes, loss=loss)
        with torch.no_grad():  # before the export in training, which moves running statistics
            expected = model(*given(infer))
        torch.onnx.export(model.train(), arguments, path, training=torch.onnx.TrainingMode.TRAINING, **options)
        trained = Evaluation(BINARY, "inputs", "after", model=path, sizes=sizes, loss=loss, steps=1)
    (found,) = infer["outputs"].values()
    check(f"{what}: values of an export", (found - expected).abs().max().item(), 1e-4)
    logits = model.train()(*given(trained))
    f.cross_entropy(logits.flatten(0, -2), trained["inputs"]["target"].long().flatten()).backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    missing = [name for name in gradients if f"optimizer.{name}.velocity" not in trained["after"]]
    if missing:
        FAILURES.append(f"{what}: no gradients of {missing}")
        return
    flat = lambda values: torch.cat([value.flatten() for value in values])
    velocities = flat([trained["after"][f"optimizer.{name}.velocity"] for name in gradients])
    check(f"{what}: gradients of an export", difference(velocities, flat(gradients.values())), 1e-3)


torch.manual_seed(1)
compare_logits("resnet18", randomize(ResNet18()), ["x"], files=["checkpoint.pth"], sizes={"batch": 2})
compare_logits("gpt2-nano", randomize(Gpt2(), 0.3), ["tokens"], sizes={"batch": 2, "sequence": 16})
compare_logits("bert_base", randomize(Bert()), ["tokens", "token_types"], size="small", sizes={"batch": 2, "sequence": 5})
compare_logits("vit_b_16", randomize(Vit()), ["x"], files=["w.pt", "w.npz"], size="small", sizes={"batch": 2})
compare_lower_precision("gpt2-nano", randomize(Gpt2(), 0.3), "tokens", sizes={"batch": 2, "sequence": 16})
compare_training("resnet18", randomize(ResNet18()), lambda model: model, "x", 1e-3, 1e-2, sizes={"batch": 4})
compare_training("gpt2-nano", randomize(Gpt2(), 0.3), lambda model: model.transformer, "tokens", 1e-1, 1e-3,
                 sizes={"batch": 2, "sequence": 16})
compare_lora("adam", 1e-2, lambda values: torch.optim.Adam(values, lr=1e-2))
compare_lora("momentum", 0.1, lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9))
compare_first_loss("f32", 1e-6)
compare_first_loss("bf16", 2e-3)
images = (torch.randn(2, 3, 64, 64),)
compare_export("ResNet", randomize(ResNet18(width=8, classes=10)), images, ["x"], "cross-entropy", batch=2)
tokens = (torch.randint(0, 99, (2, 12)),)
compare_export("GPT-2", randomize(Gpt2(tokens=99, positions=16), 0.3), tokens, ["tokens"], "lm", batch=2)
for failure in FAILURES:
    print("FAILED:", failure)
sys.exit(1 if FAILURES else 0)
