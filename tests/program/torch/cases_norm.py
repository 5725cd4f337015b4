import torch
from torch.nn import functional

from harness import check, randn, uniform

for shape, axis in [((3, 17), -1), ((2, 3, 5), 1), ((1, 257), 1)]:
    inner = shape[axis:]
    check(f"layer_norm {shape}", f"%y = layer_norm(%x, %w, %b) {{axis={axis}, eps=1e-3}}",
          lambda x, w, b: functional.layer_norm(x, inner, w, b, eps=1e-3),
          x=randn(*shape), w=randn(*inner), b=randn(*inner))
    check(f"rms_norm {shape}", f"%y = rms_norm(%x, %w) {{axis={axis}, eps=1e-3}}",
          lambda x, w: x * torch.rsqrt((x * x).mean(tuple(range(-len(inner), 0)), keepdim=True) + 1e-3) * w,
          x=randn(*shape), w=randn(*inner))

for shape in [(2, 6, 17), (3, 6, 3, 5), (1, 6, 2, 3, 2)]:
    parameters = dict(w=randn(6), b=randn(6))
    check(f"group_norm {shape}", "%y = group_norm(%x, %w, %b) {groups=3}",
          lambda x, w, b: functional.group_norm(x, 3, w, b), x=randn(*shape), **parameters)
    check(f"instance_norm {shape}", "%y = group_norm(%x, %w, %b) {groups=6}",
          lambda x, w, b: functional.instance_norm(x, weight=w, bias=b), x=randn(*shape), **parameters)
    check(f"batch_norm {shape}", "%y = batch_norm(%x, %w, %b)",
          lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True), x=randn(*shape), **parameters)
    mean, variance = randn(6), uniform(0.5, 2, 6)
    check(f"batch_norm_inference {shape}", "%y = batch_norm_inference(%x, %m, %v, %w, %b)", gradients=False,
          function=lambda x, m, v, w, b: functional.batch_norm(x, m, v, w, b),
          x=randn(*shape), m=mean, v=variance, **parameters)
    check(f"batch_norm_inference gradients {shape}",
          "%m: f64[6] = fill() {value=0.3, shape=[6], dtype=f64}\n%v: f64[6] = fill() {value=2, shape=[6], dtype=f64}\n"
          "%y = batch_norm_inference(%x, %m, %v, %w, %b)",
          lambda x, w, b: functional.batch_norm(x, torch.full_like(w, 0.3), torch.full_like(w, 2), w, b),
          x=randn(*shape), **parameters)


def running(x, mean, variance):
    mean, variance = mean.clone(), variance.clone()
    y = functional.batch_norm(x, mean, variance, training=True, momentum=0.3)
    return y, mean, variance


check("batch_norm running statistics",
      "%y, %m, _, %v = batch_norm(%x)\n%m2, %v2 = batch_norm_update(%mean, %variance, %m, %v) {momentum=0.3, count=51}",
      running, outputs=("y", "m2", "v2"), gradients=False,
      x=randn(3, 5, 17), mean=randn(5), variance=uniform(0.5, 2, 5))
