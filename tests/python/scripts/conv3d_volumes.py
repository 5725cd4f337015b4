import torch
from torch import nn


def block(inputs, outputs, stride):
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01, True),
        nn.Conv3d(outputs, outputs, 3, 1, 1, bias=False), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01, True),
    )


class VNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        self.down = nn.ModuleList(block(a, b, 1 if a == 1 else 2) for a, b in zip((1,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, 2) for a, b in zip(widths[:0:-1], widths[-2::-1]))
        self.merge = nn.ModuleList(block(2 * b, b, 1) for b in widths[-2::-1])
        self.head = nn.Conv3d(widths[0], 4, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


model = VNet().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
scaler = torch.amp.GradScaler("cuda")
for step in range(3):
    scans = torch.randn(2, 1, 96, 96, 96, device="cuda")
    labels = torch.randint(0, 4, (2, 96, 96, 96), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(scans), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
