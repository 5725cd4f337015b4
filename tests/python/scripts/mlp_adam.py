import torch
from torch import nn

model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8192, 8192), nn.GELU(), nn.Linear(8192, 10))
model = model.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(2048, 4096).cuda()
    y = torch.randint(0, 10, (2048,)).cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if loss > 100:
        break
    print(step, loss.item())
