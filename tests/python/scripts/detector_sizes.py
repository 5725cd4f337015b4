import random

import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone


class Detector(nn.Module):
    def __init__(self, classes=80):
        super().__init__()
        self.backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=5)
        tower = []
        for _ in range(4):
            tower += [nn.Conv2d(256, 256, 3, padding=1), nn.GroupNorm(32, 256), nn.ReLU()]
        self.tower = nn.Sequential(*tower)
        self.scores, self.boxes = nn.Conv2d(256, classes, 3, padding=1), nn.Conv2d(256, 4, 3, padding=1)

    def forward(self, images):
        levels = [self.tower(level) for level in self.backbone(images).values()]
        return [(self.scores(level), self.boxes(level).relu()) for level in levels]


model = Detector().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
draw = random.Random(5)
for step in range(6):
    height, width = draw.choice(range(480, 801, 32)), draw.choice(range(640, 1025, 32))
    images = torch.randn(4, 3, height, width, device="cuda")
    loss = 0
    for scores, boxes in model(images):
        wanted = torch.zeros_like(scores)
        loss = loss + torchvision.ops.sigmoid_focal_loss(scores, wanted, reduction="mean")
        loss = loss + F.smooth_l1_loss(boxes, torch.ones_like(boxes))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
