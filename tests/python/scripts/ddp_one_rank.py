import os
import tempfile

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

store = "file://" + os.path.join(tempfile.mkdtemp(), "store")
dist.init_process_group("nccl", init_method=store, rank=0, world_size=1)
torch.cuda.set_device(0)
model = torchvision.models.regnet_y_1_6gf().cuda()
model = DistributedDataParallel(model, device_ids=[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(4):
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
