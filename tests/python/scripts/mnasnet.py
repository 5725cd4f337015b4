import torch
import torchvision

model = torchvision.models.mnasnet1_0().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
for step in range(3):
    x = torch.randn(96, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (96,), device="cuda")
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
