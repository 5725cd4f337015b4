import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D


class Lora(nn.Module):
    def __init__(self, base, rank=16, alpha=32):
        super().__init__()
        inputs, outputs = base.weight.shape
        self.base, self.scale = base, alpha / rank
        self.a = nn.Parameter(torch.randn(inputs, rank) * 0.01)
        self.b = nn.Parameter(torch.zeros(rank, outputs))
        self.dropout = nn.Dropout(0.05)

    def forward(self, x):
        return self.base(x) + self.dropout(x) @ self.a.to(x.dtype) @ self.b.to(x.dtype) * self.scale


model = GPT2LMHeadModel(GPT2Config(n_layer=24, n_embd=1024, n_head=16)).to(torch.bfloat16)
model.requires_grad_(False)
for block in model.transformer.h:
    block.attn.c_attn = Lora(block.attn.c_attn)
    block.mlp.c_fc = Lora(block.mlp.c_fc)
model.cuda().train()
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=2e-4)
for step in range(4):
    ids = torch.randint(0, 50257, (4, 512), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, float(loss))
