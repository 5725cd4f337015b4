import torch
from torch import nn


def block(i, o, stride):
    return nn.Sequential(nn.Conv1d(i, o, 9, stride=stride, padding=4), nn.BatchNorm1d(o), nn.ReLU(inplace=True))


model = nn.Sequential(block(1, 64, 4), block(64, 128, 4), block(128, 256, 4), block(256, 512, 4), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(512, 35))
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4)
for step in range(3):
    x, y = torch.randn(64, 1, 64000).cuda(), torch.randint(0, 35, (64,)).cuda()
    loss = nn.functional.nll_loss(nn.functional.log_softmax(model(x), 1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
