#!/usr/bin/env python3
"""A JPEG folder to normalised batches by PyTorch's DataLoader and torchvision: data_torch.py FOLDER WORKERS BATCH SIZE.
Prints images a second of the second epoch and the versions."""
import sys
import time

import torch
import torchvision
from torchvision import transforms

folder, workers, batch, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
steps = transforms.Compose([
    transforms.Resize(size),
    transforms.CenterCrop(size),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])
data = torchvision.datasets.ImageFolder(folder, steps)
loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True, num_workers=workers,
                                     persistent_workers=workers > 0)
for _ in range(2):
    start = time.perf_counter()
    images = sum(x.shape[0] for x, _ in loader)
    rate = images / (time.perf_counter() - start)
print(f"{rate} PyTorch {torch.__version__}, torchvision {torchvision.__version__}")
