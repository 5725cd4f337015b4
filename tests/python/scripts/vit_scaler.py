import torch
from transformers import ViTConfig, ViTForImageClassification

model = ViTForImageClassification(ViTConfig(num_labels=100)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
scaler = torch.amp.GradScaler("cuda")
for step in range(4):
    images = torch.randn(48, 3, 224, 224).cuda(non_blocking=True)
    labels = torch.randint(0, 100, (48,)).cuda(non_blocking=True)
    optimizer.zero_grad(set_to_none=True)
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(pixel_values=images, labels=labels).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    print(step, loss.item())
