"""PyTorch draws other numbers, so the mask is made here, by the definition in plimsoll/program/random.h."""
import torch

from harness import check, randn

LOW = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        even, odd = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [odd >> 32 ^ c[1] ^ k[0], odd & LOW, even >> 32 ^ c[3] ^ k[1], even & LOW]
        k = [k[0] + 0x9E3779B9 & LOW, k[1] + 0xBB67AE85 & LOW]
    return c


def kept(seed, stream, index, rate):
    words = philox([index // 4 & LOW, index // 4 >> 32, stream & LOW, stream >> 32], [seed & LOW, seed >> 32])
    return words[index % 4] >= round(rate * 2**32)


for seed, stream, offset, rate in [(0, 0, 0, 0.5), (2**40 + 3, 5, 0, 0.1), (12345, 2**33, 2**35 + 2, 0.9)]:
    mask = torch.tensor([float(kept(seed, stream, offset + i, rate)) for i in range(51)]).double().reshape(3, 17)
    check(f"dropout seed {seed}", f"%y = dropout(%x, %seed) {{rate={rate}, stream={stream}, offset={offset}}}",
          lambda x, _, mask=mask, rate=rate: x * mask / (1 - rate), x=randn(3, 17), seed=torch.tensor(seed))
