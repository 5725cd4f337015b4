import torch
from torch.nn import functional

from harness import check, randint, randn, uniform

REDUCTIONS = ("none", "mean", "sum")

for reduction in REDUCTIONS:
    for smoothing in (0.0, 0.1):
        for shape, axis in [((17, 10), -1), ((2, 7, 3, 2), 1), ((31,), 0), ((257, 1), 1)]:
            targets = randint(0, shape[axis], *(shape[:axis] + shape[axis + 1:] if axis >= 0 else shape[:axis]))
            if targets.numel() > 4:
                targets.view(-1)[::3] = -1

            def loss(x, t, r=reduction, s=smoothing):
                return functional.cross_entropy(x, t, reduction=r, label_smoothing=s, ignore_index=-1)

            check(f"cross_entropy {shape} {reduction} {smoothing}",
                  f"%y = cross_entropy(%x, %t) {{axis={axis}, ignored_index=-1, label_smoothing={smoothing}, "
                  f"reduction={reduction}}}", loss, x=2 * randn(*shape), t=targets)

POINTWISE = {"mse_loss": functional.mse_loss, "l1_loss": functional.l1_loss,
             "bce_loss": functional.binary_cross_entropy,
             "bce_with_logits_loss": functional.binary_cross_entropy_with_logits}
for op, function in POINTWISE.items():
    for reduction in REDUCTIONS:
        for shape in [(1,), (3, 17), (31,)]:
            check(f"{op} {shape} {reduction}", f"%y = {op}(%x, %t) {{reduction={reduction}}}",
                  lambda x, t, f=function, r=reduction: f(x, t, reduction=r),
                  x=uniform(0.01, 0.99, *shape), t=uniform(0, 1, *shape))
for reduction in REDUCTIONS:
    check(f"huber_loss {reduction}", f"%y = huber_loss(%x, %t) {{delta=0.7, reduction={reduction}}}",
          lambda x, t, r=reduction: functional.huber_loss(x, t, reduction=r, delta=0.7), x=randn(3, 17), t=randn(3, 17))
# Values only: the gradient of a target of bce_loss is held as its value is; PyTorch's is infinite.
check("bce_loss at the ends", "%y = bce_loss(%x, %t) {reduction=none}",
      lambda x, t: functional.binary_cross_entropy(x, t, reduction="none"), gradients=False,
      x=torch.tensor([0, 1, 0, 1], dtype=torch.float64), t=torch.tensor([0, 0, 1, 1], dtype=torch.float64))
check("bce_with_logits_loss far out", "%y = bce_with_logits_loss(%x, %t)",
      functional.binary_cross_entropy_with_logits,
      x=torch.tensor([800.0, -800.0], dtype=torch.float64), t=torch.tensor([0.25, 0.75], dtype=torch.float64))
