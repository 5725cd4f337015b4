"""Against the formula written out: PyTorch 1.13 has no public attention function with all of its options."""
import math

import torch

from harness import check, randint, randn


def attention(q, k, v, mask=None, causal=False, scale=None):
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, -1) @ v


for causal in (False, True):
    flag = f"causal={str(causal).lower()}"
    for queries, keys, dim, width in [(5, 5, 4, 4), (3, 17, 7, 1), (17, 3, 1, 5), (1, 31, 8, 8), (1, 1, 1, 1)]:
        check(f"attention {queries} {keys} {dim} {width} {flag}", f"%y = attention(%q, %k, %v) {{{flag}}}",
              lambda q, k, v, c=causal: attention(q, k, v, causal=c),
              q=randn(2, 3, queries, dim), k=randn(2, 3, keys, dim), v=randn(2, 3, keys, width))
    for shape in [(2, 3, 4, 5), (4, 5), (2, 1, 1, 5), (1, 3, 4, 1)]:
        check(f"attention with an additive mask {shape} {flag}", f"%y = attention(%q, %k, %v, %m) {{scale=0.3, {flag}}}",
              lambda q, k, v, m, c=causal: attention(q, k, v, m, c, 0.3),
              q=randn(2, 3, 4, 2), k=randn(2, 3, 5, 2), v=randn(2, 3, 5, 3), m=randn(*shape))
    allowed = randint(0, 2, 2, 1, 4, 5).bool()
    allowed[..., 0] = True  # a query that sees no key is not a number in PyTorch
    check(f"attention with a boolean mask {flag}", f"%y = attention(%q, %k, %v, %m) {{{flag}}}",
          lambda q, k, v, m, c=causal: attention(q, k, v, m, c),
          q=randn(2, 3, 4, 2), k=randn(2, 3, 5, 2), v=randn(2, 3, 5, 3), m=allowed)
