import torch
import torchvision

model = torchvision.models.resnet34().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
for step in range(3):
    x = torch.randn(48, 3, 192, 192, device="cuda")
    y = torch.randint(0, 1000, (48,), device="cuda")
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
