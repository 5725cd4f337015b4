import torch
import torchvision

model = torchvision.models.efficientnet_v2_s().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss()
for step in range(3):
    x = torch.randn(32, 3, 300, 300, device="cuda")
    y = torch.randint(0, 1000, (32,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
