import torch
from torch.nn import functional

from harness import check, randint, randn

check("reshape with what is left", "%y = reshape(%x) {shape=[-1,5]}", lambda x: x.reshape(-1, 5), x=randn(2, 3, 5))
check("reshape of a transpose", "%t = transpose(%x) {axes=[1,0]}\n%y = reshape(%t) {shape=[51]}",
      lambda x: x.T.reshape(51), x=randn(3, 17))
check("expand", "%y = expand(%x) {shape=[2,3,5]}", lambda x: x.expand(2, 3, 5), x=randn(3, 1))
check("expanded twice", "%e = expand(%x) {shape=[2,3,5]}\n%y = expand(%e) {shape=[4,2,3,5]}",
      lambda x: x.expand(4, 2, 3, 5), x=randn(3, 1))
check("slice", "%y = slice(%x) {starts=[1,2], sizes=[2,5], steps=[1,3]}", lambda x: x[1:3, 2:15:3], x=randn(3, 17))
check("slice backwards", "%y = slice(%x) {starts=[2,16], sizes=[3,6], steps=[-1,-3]}",
      lambda x: x.flip(0, 1)[:, ::3], x=randn(3, 17))
check("split", "%a, %b, %c = split(%x) {axis=1, sizes=[1,13,3]}", lambda x: x.split([1, 13, 3], 1),
      outputs=("a", "b", "c"), x=randn(3, 17))
check("split in equal parts", "%a, %b = split(%x) {axis=-1, parts=2}", lambda x: x.chunk(2, -1), outputs=("a", "b"),
      x=randn(3, 6))
check("one piece of a split", "%a, %y, %c = split(%x) {axis=0, parts=3}", lambda x: x.chunk(3, 0)[1], x=randn(3, 6))
for axis in [0, 1, -1]:
    check(f"concat along {axis}", f"%y = concat(%a, %b) {{axis={axis}}}", lambda a, b: torch.cat([a, b], axis),
          a=randn(2, 3, 5), b=randn(2, 3, 5))
for mode, theirs in {"constant": "constant", "reflect": "reflect", "edge": "replicate"}.items():
    check(f"pad {mode}", f"%y = pad(%x) {{before=[0,0,2,1], after=[0,0,1,4], mode={mode}}}",
          lambda x: functional.pad(x, (1, 4, 2, 1), theirs), x=randn(2, 3, 3, 17))
check("pad with a value", "%y = pad(%x) {before=[1,0], after=[0,2], value=-3}",
      lambda x: functional.pad(x, (0, 2, 1, 0), value=-3), x=randn(3, 17))
check("tile", "%y = tile(%x) {repeats=[3,1,2]}", lambda x: x.tile(3, 1, 2), x=randn(2, 3, 5))

check("gather", "%y = gather(%x, %i) {axis=1}", lambda x, i: x[:, i], x=randn(3, 17, 2), i=randint(0, 17, 2, 3))
check("gather from the end", "%y = gather(%x, %i)", lambda x, i: x[i], x=randn(17, 3), i=randint(-17, 17, 31))
check("embedding", "%y = embedding(%w, %i)", lambda w, i: functional.embedding(i, w), w=randn(31, 3),
      i=randint(0, 31, 2, 17))
check("embedding with padding", "%y = embedding(%w, %i) {padding=2}",
      lambda w, i: functional.embedding(i, w, padding_idx=2), w=randn(5, 3), i=randint(0, 5, 2, 17))
for axis in [0, 1]:
    check(f"gather_elements along {axis}", f"%y = gather_elements(%x, %i) {{axis={axis}}}",
          lambda x, i: x.gather(axis, i), x=randn(3, 17), i=randint(0, 3, 2, 5))
    check(f"scatter_add along {axis}", f"%y = scatter_elements(%x, %i, %u) {{axis={axis}, add=true}}",
          lambda x, i, u: x.scatter_add(axis, i, u), x=randn(3, 17), i=randint(0, 3, 2, 5), u=randn(2, 5))
check("scatter", "%y = scatter_elements(%x, %i, %u) {axis=1}", lambda x, i, u: x.scatter(1, i, u), x=randn(2, 17),
      i=torch.stack([torch.randperm(17)[:5], torch.randperm(17)[:5]]), u=randn(2, 5))
check("one_hot", "%y = one_hot(%i) {depth=7, dtype=i64}", lambda i: functional.one_hot(i, 7), i=randint(0, 7, 3, 5))
