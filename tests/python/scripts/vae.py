import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.SiLU())
        self.mean, self.log_var = nn.Linear(128 * 256, 128), nn.Linear(128 * 256, 128)
        self.up = nn.Linear(128, 128 * 256)
        self.decoder = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(128, 64, 3, 1, 1), nn.SiLU(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(64, 3, 3, 1, 1), nn.Sigmoid())

    def forward(self, x):
        h = self.encoder(x).flatten(1)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return self.decoder(self.up(z).view(-1, 128, 16, 16)), mean, log_var


model = VAE().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.rand(256, 3, 64, 64, device="cuda")
    y, mean, log_var = model(x)
    loss = F.mse_loss(y, x, reduction="sum") - 0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
