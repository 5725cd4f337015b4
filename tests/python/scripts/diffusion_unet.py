import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, i), nn.Conv2d(i, o, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(32, o), nn.Conv2d(o, o, 3, padding=1)
        self.time = nn.Linear(512, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.time(t)[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(32, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, 4, c // 4, h * w).transpose(-1, -2).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, c=128):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 512))
        self.first, self.last = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.d1, self.d2, self.d3 = Residual(c, c), Residual(c, 2 * c), Residual(2 * c, 4 * c)
        self.middle = Attention(4 * c)
        self.u3, self.u2, self.u1 = Residual(6 * c, 2 * c), Residual(3 * c, c), Residual(2 * c, c)

    def forward(self, x, t):
        t = self.time(t)
        x0 = self.first(x)
        x1 = self.d1(x0, t)
        x2 = self.d2(F.avg_pool2d(x1, 2), t)
        x3 = self.middle(self.d3(F.avg_pool2d(x2, 2), t))
        h = self.u3(torch.cat([F.interpolate(x3, scale_factor=2), x2], 1), t)
        h = self.u2(torch.cat([F.interpolate(h, scale_factor=2), x1], 1), t)
        return self.last(self.u1(torch.cat([h, x0], 1), t))


model = UNet().cuda()
ema = UNet().cuda().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(3):
    x, noise = torch.randn(32, 3, 64, 64, device="cuda"), torch.randn(32, 3, 64, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(model(x + noise, torch.randn(32, 128, device="cuda")), noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 0.01)
