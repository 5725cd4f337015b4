import torch
import torch.nn.functional as F
from torch import nn


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512, 1024), classes=21):
        super().__init__()
        self.down = nn.ModuleList(double(a, b) for a, b in zip((3,) + widths, widths))
        self.up = nn.ModuleList(double(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = block(torch.cat([x, skips.pop()], dim=1))
        return self.head(x)


model = UNet().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
for step in range(3):
    images = torch.randn(6, 3, 320, 320, device="cuda")
    masks = torch.randint(0, 21, (6, 320, 320), device="cuda")
    logits = model(images)
    loss = F.cross_entropy(logits, masks)
    chance = logits.softmax(1)
    wanted = F.one_hot(masks, 21).permute(0, 3, 1, 2).float()
    loss = loss + 1 - 2 * (chance * wanted).sum() / (chance.sum() + wanted.sum())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
