import math

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, vocab=16000, width=512):
        super().__init__()
        self.source, self.target = nn.Embedding(vocab, width), nn.Embedding(vocab, width)
        self.body = nn.Transformer(width, 8, 6, 6, 2048, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, vocab)
        self.scale = math.sqrt(width)

    def forward(self, s, t):
        mask = nn.Transformer.generate_square_subsequent_mask(t.shape[1], device=t.device)
        return self.head(self.body(self.source(s) * self.scale, self.target(t) * self.scale, tgt_mask=mask))


device = torch.device("cuda:0")
model = Translator().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for step in range(3):
    s = torch.randint(0, 16000, (32, 128), device=device)
    t = torch.randint(0, 16000, (32, 129), device=device)
    logits = model(s, t[:, :-1])
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(logits.reshape(-1, 16000), t[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
