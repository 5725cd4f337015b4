import torch
from torch.nn import functional

from harness import check, randn

for transpose_a in (False, True):
    for transpose_b in (False, True):
        def product(a, b, ta=transpose_a, tb=transpose_b):
            return (a.transpose(-1, -2) if ta else a) @ (b.transpose(-1, -2) if tb else b)

        flags = f"{{transpose_a={str(transpose_a).lower()}, transpose_b={str(transpose_b).lower()}}}"
        a = (17, 3) if transpose_a else (3, 17)
        b = (5, 17) if transpose_b else (17, 5)
        for batch_a, batch_b in [((), ()), ((2,), ()), ((), (3,)), ((4, 1), (3,)), ((2, 1, 3), (2, 1, 1)), ((1,), (2,))]:
            check(f"matmul {flags} {batch_a} {batch_b}", f"%y = matmul(%a, %b) {flags}", product,
                  a=randn(*batch_a, *a), b=randn(*batch_b, *b))

for shape in [(29,), (17, 29), (2, 3, 29), (1, 31, 1, 29)]:
    check(f"linear {shape}", "%y = linear(%x, %w, %bias)", functional.linear,
          x=randn(*shape), w=randn(10, 29), bias=randn(10))
check("linear without bias", "%y = linear(%x, %w)", functional.linear, x=randn(257, 3), w=randn(1, 3))
