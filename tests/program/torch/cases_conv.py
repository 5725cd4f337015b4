from torch.nn import functional

from harness import check, randn

CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def text(**options):
    return "{" + ", ".join(f"{name}={str(value).replace(' ', '')}" for name, value in options.items()) + "}"


for x, w, options in [
        ((2, 3, 17), (5, 3, 3), dict(stride=[2], padding=[1])),
        ((1, 2, 257), (3, 2, 31), dict(stride=[7], dilation=[2])),
        ((2, 4, 9, 7), (6, 2, 3, 2), dict(stride=[2, 1], padding=[1, 0], dilation=[1, 3], groups=2)),
        ((2, 3, 8, 8), (3, 1, 3, 3), dict(padding=[1, 1], groups=3)),
        ((1, 2, 5, 4, 3), (3, 2, 2, 3, 1), dict(stride=[1, 2, 1], padding=[1, 1, 0]))]:
    conv = CONV[len(x) - 2]
    check(f"conv {x} {w}", f"%y = conv(%x, %w, %bias) {text(**options)}",
          lambda x, w, bias, f=conv, o=options: f(x, w, bias, **o), x=randn(*x), w=randn(*w), bias=randn(w[0]))

check("conv padded on one side", "%y = conv(%x, %w) {padding=[0,2,1,0]}",
      lambda x, w: functional.conv2d(functional.pad(x, (2, 0, 0, 1)), w), x=randn(1, 2, 5, 4), w=randn(3, 2, 2, 3))

for x, w, options in [
        ((2, 3, 17), (3, 5, 3), dict(stride=[2], padding=[1], output_padding=[1])),
        ((1, 4, 5, 3), (4, 3, 3, 2), dict(stride=[2, 1], dilation=[2, 3], groups=2)),
        ((1, 2, 2, 3, 2), (2, 3, 2, 1, 3), dict(stride=[1, 3, 2], output_padding=[0, 2, 1]))]:
    conv = TRANSPOSED[len(x) - 2]
    check(f"conv_transpose {x} {w}", f"%y = conv_transpose(%x, %w, %bias) {text(**options)}",
          lambda x, w, bias, f=conv, o=options: f(x, w, bias, **o),
          x=randn(*x), w=randn(*w), bias=randn(w[1] * options.get("groups", 1)))
