import torch
import torchvision

model = torchvision.models.video.r3d_18(num_classes=101).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(3):
    x = torch.randn(8, 3, 16, 112, 112).cuda()
    y = torch.randint(0, 101, (8,)).cuda()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
