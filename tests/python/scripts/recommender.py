import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, rows=200000, width=64, tables=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + (tables + 1) * tables // 2, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, dense, ids):
        x = self.bottom(dense)
        rows = torch.stack([x] + [table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        pairs = rows @ rows.transpose(1, 2)
        i, j = torch.tril_indices(rows.shape[1], rows.shape[1], -1, device=rows.device)
        return self.top(torch.cat([x, pairs[:, i, j]], 1)).squeeze(1)


model = Recommender().cuda()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
for step in range(3):
    dense, ids = torch.randn(8192, 13, device="cuda"), torch.randint(0, 200000, (8192, 8, 4), device="cuda")
    y = torch.rand(8192, device="cuda").round()
    loss = nn.functional.binary_cross_entropy_with_logits(model(dense, ids), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
