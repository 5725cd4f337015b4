import torch
from torch.nn import functional

from harness import check, randn, uniform

UNARY = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp, "neg": torch.neg,
         "silu": functional.silu, "gelu": functional.gelu}
for op, function in UNARY.items():
    for shape in [(1,), (17,), (3, 31), (2, 3, 5)]:
        check(f"{op} {shape}", f"%y = {op}(%x)", function, x=randn(*shape))
for op, function in {"sqrt": torch.sqrt, "log": torch.log}.items():
    check(op, f"%y = {op}(%x)", function, x=uniform(0.1, 3, 3, 17))

check("relu of zeros and large numbers", "%y = relu(%x)", torch.relu,
      x=torch.tensor([0.0, -0.0, 1e300, -1e300], dtype=torch.float64))
check("add", "%y = add(%x, %z)", torch.add, x=randn(3, 17), z=randn(3, 17))
check("matmul", "%y = matmul(%a, %b)", torch.matmul, a=randn(3, 17), b=randn(17, 5))
check("matmul batched, b transposed", "%y = matmul(%a, %b) {transpose_b=true}",
      lambda a, b: a @ b.transpose(-1, -2), a=randn(2, 3, 3, 17), b=randn(2, 3, 5, 17))
check("matmul, a transposed", "%y = matmul(%a, %b) {transpose_a=true}", lambda a, b: a.T @ b,
      a=randn(17, 3), b=randn(17, 5))
check("reshape", "%y = reshape(%x) {shape=[6,5]}", lambda x: x.reshape(6, 5), x=randn(2, 3, 5))
check("transpose", "%y = transpose(%x) {axes=[2,0,1]}", lambda x: x.permute(2, 0, 1), x=randn(2, 3, 5))
