import torch
import torchvision
from torch.utils.checkpoint import checkpoint_sequential

model = torchvision.models.vit_l_16().to("cuda", torch.bfloat16)
layers = model.encoder.layers
model.encoder.layers = torch.nn.Identity()
model.encoder.layers.forward = lambda x: checkpoint_sequential(layers, 6, x, use_reentrant=False)
optimizer = torch.optim.SGD([*model.parameters(), *layers.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(32, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
    y = torch.randint(0, 1000, (32,), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
