import torch
from torch import nn


def generator(width=64):
    layers = [nn.ConvTranspose2d(128, width * 8, 4), nn.BatchNorm2d(width * 8), nn.ReLU(True)]
    for factor in (4, 2, 1):
        layers += [nn.ConvTranspose2d(width * factor * 2, width * factor, 4, 2, 1), nn.BatchNorm2d(width * factor),
                   nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


def critic(width=64):
    layers = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for factor in (1, 2, 4):
        layers += [nn.Conv2d(width * factor, width * factor * 2, 4, 2, 1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(width * 8, 1, 4), nn.Flatten())


made, judge = generator().cuda(), critic().cuda()
update_made = torch.optim.Adam(made.parameters(), lr=1e-4, betas=(0.0, 0.9))
update_judge = torch.optim.Adam(judge.parameters(), lr=1e-4, betas=(0.0, 0.9))
for step in range(4):
    for _ in range(2):
        real = torch.randn(192, 3, 64, 64, device="cuda")
        with torch.no_grad():
            fake = made(torch.randn(192, 128, 1, 1, device="cuda"))
        mix = torch.rand(192, 1, 1, 1, device="cuda")
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        slope, = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        penalty = ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        loss = judge(fake).mean() - judge(real).mean() + 10 * penalty
        update_judge.zero_grad()
        loss.backward()
        update_judge.step()
    loss = -judge(made(torch.randn(192, 128, 1, 1, device="cuda"))).mean()
    update_made.zero_grad()
    loss.backward()
    update_made.step()
