"""A GPT of 124 million parameters on random tokens, 16 x 1024 a step: it takes 17 GiB. See docs/pytorch.md."""

import torch
from torch import nn

BATCH, LENGTH, WIDTH, VOCABULARY = 16, 1024, 768, 50304


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 12, 64)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(12))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(ids):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(ids)
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


model = Gpt().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

if __name__ == "__main__":
    for step in range(10):
        loss = loss_of(torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")
