import torch

from harness import check, randn, uniform

REDUCE = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin,
          "norm2": lambda x, dim, keepdim: torch.linalg.vector_norm(x, dim=dim, keepdim=keepdim),
          "var": lambda x, dim, keepdim: torch.var(x, dim, unbiased=True, keepdim=keepdim)}
OVER = [((257,), [0]), ((3, 17), [0]), ((3, 17), [-1]), ((2, 3, 5), [0, 2]), ((3, 2, 17, 2), [1, 3])]
for op, function in REDUCE.items():
    for shape, axes in OVER:
        for keep in [False, True]:
            check(f"{op} of {shape} over {axes}, keepdims {keep}",
                  f"%y = {op}(%x) {{axes={axes}, keepdims={str(keep).lower()}}}",
                  lambda x: function(x, dim=axes, keepdim=keep), x=randn(*shape))
for op, function in {"sum": torch.sum, "mean": torch.mean, "prod": torch.prod}.items():
    check(f"{op} of all", f"%y = {op}(%x)", function, x=uniform(0.5, 1.5, 3, 5))
check("prod along one axis", "%y = prod(%x) {axes=[1]}", lambda x: x.prod(1), x=uniform(0.5, 1.5, 3, 17))
check("prod with zeros", "%y = prod(%x) {axes=[1]}", lambda x: x.prod(1),
      x=torch.tensor([[0.0, 2, 3], [0, 0, 3], [1, 2, 3]], dtype=torch.float64))
check("norm2 of zeros", "%y = norm2(%x) {axes=[1]}", lambda x: torch.linalg.vector_norm(x, dim=1),
      x=torch.zeros(2, 3, dtype=torch.float64))
check("var without correction", "%y = var(%x) {axes=[0], correction=0}", lambda x: x.var(0, unbiased=False),
      x=randn(17, 3))
for op in ["argmax", "argmin"]:
    for axis in [0, 1, -1]:
        check(f"{op} along {axis}", f"%y = {op}(%x) {{axis={axis}}}", lambda x: getattr(torch, op)(x, axis),
              x=randn(3, 17, 2))
for axis in [0, 1, -1]:
    check(f"cumsum along {axis}", f"%y = cumsum(%x) {{axis={axis}}}", lambda x: x.cumsum(axis), x=randn(3, 17, 2))
check("cumsum in reverse", "%y = cumsum(%x) {axis=1, reverse=true}", lambda x: x.flip(1).cumsum(1).flip(1),
      x=randn(3, 17))
check("exclusive cumsum", "%y = cumsum(%x) {axis=1, exclusive=true}", lambda x: x.cumsum(1) - x, x=randn(3, 17))
for axis, k, largest in [(0, 2, True), (1, 17, True), (-1, 1, False)]:
    check(f"top_k along {axis}", f"%y, %i = top_k(%x) {{k={k}, axis={axis}, largest={str(largest).lower()}}}",
          lambda x: torch.topk(x, k, axis, largest), outputs=("y", "i"), x=randn(3, 17, 2))
