import torch

from harness import check, randn

for shape in [(1,), (257,), (3, 17), (2, 3, 5), (1, 31)]:
    for axis in range(-len(shape), len(shape)):
        check(f"softmax {shape} {axis}", f"%y = softmax(%x) {{axis={axis}}}", lambda x, d=axis: torch.softmax(x, d),
              x=3 * randn(*shape))
        check(f"log_softmax {shape} {axis}", f"%y = log_softmax(%x) {{axis={axis}}}",
              lambda x, d=axis: torch.log_softmax(x, d), x=3 * randn(*shape))

check("softmax far out", "%y = softmax(%x)", lambda x: torch.softmax(x, -1),
      x=torch.tensor([[1e4, -1e4, 0], [-800, 0, 1], [1e300, -1e300, 1e300]], dtype=torch.float64))
