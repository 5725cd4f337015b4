"""Compares ops with PyTorch, values and gradients, in f64. A case is one call of `check`:

    check("relu", "%y = relu(%x)", torch.relu, x=randn(3, 17))

The keyword arguments are the operands: they are declared as inputs of the program under their names and passed to the
function in their order. The body defines %y (or all of `outputs`); the function returns the same in PyTorch.
"""
import json
import subprocess
import sys

import torch

DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}
_random = torch.Generator().manual_seed(20)


def randn(*shape):
    return torch.randn(shape, generator=_random, dtype=torch.float64)


def uniform(low, high, *shape):
    return low + (high - low) * torch.rand(shape, generator=_random, dtype=torch.float64)


def randint(low, high, *shape):
    return torch.randint(low, high, shape, generator=_random)


class Evaluator:
    """The C++ side, started once."""

    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if "error" in reply:
            raise AssertionError(reply["error"])
        return reply


evaluator = None  # set by run.py
failures = []
cases = 0


def to_json(tensor):
    data = tensor.detach().reshape(-1)
    data = data.to(torch.int64) if tensor.dtype == torch.bool else data
    return {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data": data.tolist()}


def from_json(array, like):
    return torch.tensor(array["data"], dtype=like.dtype).reshape(array["shape"])


def compare(what, found, expected, tolerance):
    if list(found.shape) != list(expected.shape):
        raise AssertionError(f"{what} has shape {list(found.shape)}, PyTorch has {list(expected.shape)}")
    if not torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        worst = (found.double() - expected.double()).abs().max().item()
        raise AssertionError(f"{what} differs from PyTorch by up to {worst:.3g}")


def run_case(body, function, operands, outputs, gradients, tolerance):
    inputs = {name: tensor.detach().clone() for name, tensor in operands.items()}
    wanted = [name for name, tensor in inputs.items() if gradients and tensor.is_floating_point()]
    for name in wanted:
        inputs[name].requires_grad_()
    expected = function(*inputs.values())
    expected = dict(zip(outputs, expected if isinstance(expected, (tuple, list)) else [expected]))
    seeds = {name: randn(*y.shape) for name, y in expected.items() if wanted and y.is_floating_point()}
    lines = [f"input %{name}: {DTYPES[t.dtype]}{list(t.shape)}" for name, t in inputs.items()]
    lines += [body] + [f"output %{name}" for name in outputs]
    reply = evaluator({"program": "\n".join(lines), "inputs": {n: to_json(t) for n, t in inputs.items()},
                       "seeds": {n: to_json(t) for n, t in seeds.items()}, "wanted": wanted})
    for name, y in expected.items():
        compare(f"%{name}", from_json(reply["outputs"][name], y), y.detach(), tolerance)
    if not seeds:
        return
    objective = sum((expected[name] * seed).sum() for name, seed in seeds.items())
    found = torch.autograd.grad(objective, [inputs[name] for name in wanted], allow_unused=True)
    for name, gradient in zip(wanted, found):
        ours = reply["gradients"].get(name)
        zeros = torch.zeros_like(inputs[name]).detach()
        compare(f"the gradient of %{name}", zeros if ours is None else from_json(ours, zeros),
                zeros if gradient is None else gradient, tolerance)


def told(case, comparison, *arguments):
    """Runs one comparison and keeps its failure: every case is told, not only the first."""
    global cases
    cases += 1
    try:
        comparison(*arguments)
    except Exception as error:
        failures.append(case)
        print(f"{case}: {error}", file=sys.stderr)


def check(case, body, function, *, outputs=("y",), gradients=True, tolerance=1e-9, **operands):
    told(case, run_case, body, function, operands, outputs, gradients, tolerance)
