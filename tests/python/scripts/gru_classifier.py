import torch
from torch import nn

embed, gru, head = nn.Embedding(10000, 256).cuda(), nn.GRU(256, 512, bidirectional=True).cuda(), nn.Linear(1024, 2).cuda()
parameters = [*embed.parameters(), *gru.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)
for step in range(3):
    ids = torch.randint(0, 10000, (200, 128), device="cuda")
    y = torch.randint(0, 2, (128,), device="cuda")
    out, h = gru(embed(ids))
    loss = nn.functional.cross_entropy(head(torch.cat([h[0], h[1]], 1)), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
