import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, vocab=20000, width=650):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, state=None):
        out, state = self.lstm(self.embed(ids), state)
        return self.head(out), state


model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
state = None
for step in range(3):
    ids = torch.randint(0, 20000, (64, 71), device="cuda")
    logits, state = model(ids[:, :-1], state)
    state = tuple(s.detach() for s in state)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
