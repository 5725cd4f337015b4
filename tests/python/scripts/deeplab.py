import torch
import torchvision

model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(3):
    x = torch.randn(8, 3, 256, 256, device="cuda")
    y = torch.randint(0, 21, (8, 256, 256), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(x)["out"], y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
