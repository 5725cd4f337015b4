import torch
from torch.nn import functional

from harness import check, randn

MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
AVG = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
ADAPTIVE_MAX = {1: functional.adaptive_max_pool1d, 2: functional.adaptive_max_pool2d, 3: functional.adaptive_max_pool3d}
ADAPTIVE_AVG = {1: functional.adaptive_avg_pool1d, 2: functional.adaptive_avg_pool2d, 3: functional.adaptive_avg_pool3d}


def text(value):
    return str(value).replace(" ", "")


for shape, kernel, stride, padding, dilation in [
        ((2, 3, 17), [3], [2], [1], [2]),
        ((1, 2, 257), [31], [17], [9], [1]),
        ((2, 3, 9, 7), [3, 2], [2, 1], [1, 1], [1, 3]),
        ((1, 2, 6, 5, 7), [2, 3, 2], [2, 2, 3], [1, 0, 1], [1, 2, 1])]:
    rank = len(shape) - 2
    for ceil in [False, True]:
        window = (f"kernel={text(kernel)}, stride={text(stride)}, padding={text(padding)}, "
                  f"ceil_mode={text(ceil).lower()}")
        check(f"max_pool {shape} ceil {ceil}", f"%y = max_pool(%x) {{{window}, dilation={text(dilation)}}}",
              lambda x: MAX[rank](x, kernel, stride, padding, dilation=dilation, ceil_mode=ceil), x=randn(*shape))
        for include in [False, True]:
            check(f"avg_pool {shape} ceil {ceil} include {include}",
                  f"%y = avg_pool(%x) {{{window}, count_include_pad={text(include).lower()}}}",
                  lambda x: AVG[rank](x, kernel, stride, padding, ceil_mode=ceil, count_include_pad=include),
                  x=randn(*shape))

for shape, size in [((2, 3, 17), [5]), ((1, 2, 7, 5), [3, 7]), ((2, 3, 7, 7), [1, 1]), ((1, 2, 3, 5, 4), [2, 3, 4])]:
    rank = len(shape) - 2
    check(f"adaptive_max_pool {shape}", f"%y = adaptive_max_pool(%x) {{size={text(size)}}}",
          lambda x: ADAPTIVE_MAX[rank](x, size), x=randn(*shape))
    check(f"adaptive_avg_pool {shape}", f"%y = adaptive_avg_pool(%x) {{size={text(size)}}}",
          lambda x: ADAPTIVE_AVG[rank](x, size), x=randn(*shape))

check("max_pool of ties", "%y = max_pool(%x) {kernel=[2], stride=[1], padding=[1]}",
      lambda x: functional.max_pool1d(x, 2, 1, 1), x=torch.tensor([[[1.0, 1.0, -1e30, -1e30, 2.0]]]).double())
