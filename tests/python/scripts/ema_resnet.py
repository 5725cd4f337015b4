import torch
import torchvision
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

model = torchvision.models.resnet50(num_classes=200).to("cuda", memory_format=torch.channels_last)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
for step in range(4):
    images = torch.randn(80, 3, 192, 192, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 200, (80,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
average.eval()
with torch.no_grad():
    average(torch.randn(160, 3, 192, 192, device="cuda").to(memory_format=torch.channels_last))
