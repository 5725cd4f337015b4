import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, vocabulary=40000, width=512, tags=50):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=3, bidirectional=True, dropout=0.3, batch_first=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(out)


model = Tagger().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
draw = torch.Generator().manual_seed(3)
for step in range(6):
    lengths = torch.randint(40, 201, (96,), generator=draw)
    longest = int(lengths.max())
    ids = torch.randint(1, 40000, (96, longest), generator=draw).cuda()
    tags = torch.randint(0, 50, (96, longest), generator=draw).cuda()
    logits = model(ids, lengths)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
