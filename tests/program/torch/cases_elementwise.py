import torch
from torch.nn import functional

from harness import check, randint, randn, uniform

UNARY = {
    "leaky_relu(%x) {slope=0.2}": lambda x: functional.leaky_relu(x, 0.2),
    "clamp(%x) {low=-0.5, high=1}": lambda x: x.clamp(-0.5, 1),
    "clamp(%x) {low=0, high=6}": functional.relu6,
    "clamp(%x) {low=0.25}": lambda x: x.clamp(min=0.25),
    "elu(%x) {alpha=1.5}": lambda x: functional.elu(x, 1.5),
    "softplus(%x)": functional.softplus,
    "softplus(%x) {beta=2}": lambda x: functional.softplus(x, 2),
    "gelu_tanh(%x)": lambda x: functional.gelu(x, approximate="tanh"),
    "mish(%x)": functional.mish,
    "hard_swish(%x)": functional.hardswish,
    "abs(%x)": torch.abs, "square(%x)": torch.square, "sin(%x)": torch.sin, "cos(%x)": torch.cos,
    "erf(%x)": torch.erf, "pow_scalar(%x) {exponent=3}": lambda x: x ** 3,
    "pow_scalar(%x) {exponent=0}": lambda x: x ** 0,
    "sign(%x)": torch.sign, "floor(%x)": torch.floor, "ceil(%x)": torch.ceil, "round(%x)": torch.round,
    "identity(%x)": lambda x: x * 1, "affine(%x) {scale=3, divisor=7, shift=-2}": lambda x: x * 3 / 7 - 2,
    "cast(%x) {dtype=f64}": lambda x: x * 1,
}
for body, function in UNARY.items():
    for shape in [(1,), (3, 31), (257,)]:
        check(f"{body} {shape}", f"%y = {body}", function, x=3 * randn(*shape))
check("hard_sigmoid", "%y = hard_sigmoid(%x)", functional.hardsigmoid, x=3 * randn(257),
      tolerance=1e-7)  # PyTorch rounds its gradient, 1/6, to f32
for body, function in {"rsqrt(%x)": torch.rsqrt, "reciprocal(%x)": torch.reciprocal,
                       "pow_scalar(%x) {exponent=-0.5}": lambda x: x ** -0.5}.items():
    check(body, f"%y = {body}", function, x=uniform(0.1, 3, 3, 17))
zeros = torch.tensor([0.0, -0.0, 2.0], dtype=torch.float64)
for body in ["abs(%x)", "sign(%x)", "elu(%x) {alpha=1.5}", "softplus(%x)", "pow_scalar(%x) {exponent=0}"]:
    check(f"{body} of zeros", f"%y = {body}", UNARY[body], x=zeros)
check("relu6 of its bounds", "%y = clamp(%x) {low=0, high=6}", functional.relu6,
      x=torch.tensor([0.0, 6.0, 3.0], dtype=torch.float64))
check("cast to i64", "%y = cast(%x) {dtype=i64}", lambda x: x.to(torch.int64), x=3 * randn(17))
check("cast to bool", "%y = cast(%x) {dtype=bool}", lambda x: x.to(torch.bool), x=randint(0, 2, 17))

SHAPES = [((3, 17), (3, 17)), ((3, 17), (17,)), ((3, 1), (31,)), ((1, 3, 1), (2, 1, 5)), ((), (3, 2)), ((257,), (1,))]
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
          "maximum": torch.maximum, "minimum": torch.minimum}
for op, function in BINARY.items():
    for x, z in SHAPES:
        check(f"{op} {x} {z}", f"%y = {op}(%x, %z)", function, x=uniform(0.5, 2, *x), z=uniform(0.5, 2, *z))
check("pow of zero", "%y = pow(%x, %z)", torch.pow, x=torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64),
      z=torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64))
for op in ["eq", "ne", "lt", "le", "gt", "ge"]:
    check(op, f"%y = {op}(%x, %z)", getattr(torch, op), x=randint(0, 3, 3, 17), z=randint(0, 3, 17))
for op in ["logical_and", "logical_or", "logical_xor"]:
    check(op, f"%y = {op}(%x, %z)", getattr(torch, op), x=randint(0, 2, 3, 17).bool(), z=randint(0, 2, 17).bool())
check("logical_not", "%y = logical_not(%x)", torch.logical_not, x=randint(0, 2, 17).bool())
for shape in [(3, 17), (17,), (3, 1), ()]:
    check(f"where {shape}", "%y = where(%c, %x, %z)", torch.where, c=randint(0, 2, *shape).bool(), x=randn(3, 17),
          z=randn(17))
check("keep_where", "%y = keep_where(%x, %c) {when=false}", lambda x, c: x.masked_fill(c, 0), x=randn(3, 17),
      c=randint(0, 2, 17).bool())
