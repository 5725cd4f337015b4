import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(512, 3, 96, 96), torch.randint(0, 10, (512,)))
loader = DataLoader(data, batch_size=128, shuffle=True, pin_memory=True)
model = nn.Sequential(nn.Conv2d(3, 96, 3), nn.ELU(), nn.MaxPool2d(2), nn.Conv2d(96, 192, 3), nn.LayerNorm([192, 45, 45]), nn.PReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Linear(192 * 16, 10)).cuda()
optimizer = torch.optim.NAdam(model.parameters())
total = 0.0
for epoch in range(1):
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
model.eval()
correct = 0
with torch.no_grad():
    for x, y in loader:
        correct += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()
print(total, correct)
