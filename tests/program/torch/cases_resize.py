from torch.nn import functional

from harness import check, randn

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def text(value):
    return str(value).replace(" ", "").lower()


for shape, size in [((2, 3, 17), [31]), ((1, 2, 7, 6), [3, 9]), ((2, 3, 5, 3), [10, 6]), ((1, 2, 3, 2, 4), [5, 3, 4])]:
    check(f"resize nearest {shape}", f"%y = resize(%x) {{size={text(size)}}}",
          lambda x: functional.interpolate(x, size=size), x=randn(*shape))
    for align in [False, True]:
        check(f"resize linear {shape} align {align}",
              f"%y = resize(%x) {{size={text(size)}, mode=linear, align_corners={text(align)}}}",
              lambda x: functional.interpolate(x, size=size, mode=LINEAR[len(shape) - 2], align_corners=align),
              x=randn(*shape))

for scale, size in [(2, [14, 10]), (1.7, [11, 8]), (0.4, [2, 2])]:
    check(f"resize nearest by {scale}", f"%y = resize(%x) {{size={text(size)}, scale={scale}}}",
          lambda x: functional.interpolate(x, scale_factor=scale), x=randn(1, 2, 7, 5))
    check(f"resize linear by {scale}", f"%y = resize(%x) {{size={text(size)}, scale={scale}, mode=linear}}",
          lambda x: functional.interpolate(x, scale_factor=scale, mode="bilinear", align_corners=False),
          x=randn(1, 2, 7, 5))
