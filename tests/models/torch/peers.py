"""Models of the zoo as plain PyTorch, with the parameter names of torchvision (ResNet) and Hugging Face (GPT-2, BERT,
ViT)."""
import math

import torch
from torch import nn
from torch.nn import functional as f


def group(**parts):
    """A module that only names its parts."""
    module = nn.Module()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


def randomize(model, gain=1.0, seed=1):
    """Every parameter and running statistic becomes random, so that one that is mistaken for another is seen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point():
                continue
            scale = gain / math.sqrt(tensor[0].numel()) if tensor.dim() > 1 else 0.1 * gain
            tensor.normal_(0, scale, generator=generator)
            scales = ("running_var", "bn1.weight", "bn2.weight", "downsample.1.weight", "orm.weight", "ln_f.weight",
                      "ln_1.weight", "ln_2.weight", "layernorm_before.weight", "layernorm_after.weight")
            if name.endswith(scales):
                tensor.abs_().add_(0.5)
    return model


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet18(nn.Module):
    def __init__(self, width=64, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for i in range(4):
            out = width << i
            first = Block(out if i == 0 else out // 2, out, 1 if i == 0 else 2)
            setattr(self, f"layer{i + 1}", nn.Sequential(first, Block(out, out, 1)))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = f.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def attend(q, k, v, heads, causal=False):
    batch, length, width = q.shape
    q, k, v = (part.reshape(batch, length, heads, width // heads).transpose(1, 2) for part in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(width // heads)
    if causal:
        seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, -1e30)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)


class Conv1D(nn.Module):
    """Hugging Face's linear layer of GPT-2: the weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2(nn.Module):
    def __init__(self, tokens=50257, positions=1024, layers=3, heads=3, width=48):
        super().__init__()
        self.heads = heads
        blocks = [group(ln_1=nn.LayerNorm(width), ln_2=nn.LayerNorm(width),
                        attn=group(c_attn=Conv1D(width, 3 * width), c_proj=Conv1D(width, width)),
                        mlp=group(c_fc=Conv1D(width, 4 * width), c_proj=Conv1D(4 * width, width)))
                  for _ in range(layers)]
        self.transformer = group(wte=nn.Embedding(tokens, width), wpe=nn.Embedding(positions, width),
                                 h=nn.ModuleList(blocks), ln_f=nn.LayerNorm(width))

    def layer(self, module, name, x):
        """Here adapters come in."""
        return module(x)

    def head(self, x):
        return f.linear(x, self.transformer.wte.weight)

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe.weight[: tokens.shape[1]]
        for i, block in enumerate(t.h):
            q, k, v = self.layer(block.attn.c_attn, f"h.{i}.attn.c_attn", block.ln_1(x)).chunk(3, 2)
            mixed = attend(q, k, v, self.heads, causal=True)
            x = x + self.layer(block.attn.c_proj, f"h.{i}.attn.c_proj", mixed)
            hidden = self.layer(block.mlp.c_fc, f"h.{i}.mlp.c_fc", block.ln_2(x))
            hidden = 0.5 * hidden * (1 + torch.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
            x = x + self.layer(block.mlp.c_proj, f"h.{i}.mlp.c_proj", hidden)
        return self.head(t.ln_f(x))


class Bert(nn.Module):
    def __init__(self, tokens=11, positions=9, layers=2, heads=2, width=6):
        super().__init__()
        self.heads = heads
        norm = lambda: nn.LayerNorm(width, eps=1e-12)
        linear = lambda inputs=width, outputs=width: nn.Linear(inputs, outputs)
        layer = lambda: group(
            attention=group(self=group(query=linear(), key=linear(), value=linear()),
                            output=group(dense=linear(), LayerNorm=norm())),
            intermediate=group(dense=linear(width, 4 * width)), output=group(dense=linear(4 * width), LayerNorm=norm()))
        embeddings = group(word_embeddings=nn.Embedding(tokens, width), position_embeddings=nn.Embedding(positions, width),
                           token_type_embeddings=nn.Embedding(2, width), LayerNorm=norm())
        self.bert = group(embeddings=embeddings, encoder=group(layer=nn.ModuleList(layer() for _ in range(layers))))
        self.cls = group(predictions=group(bias=nn.Parameter(torch.zeros(tokens)),
                                           transform=group(dense=linear(), LayerNorm=norm())))

    def forward(self, tokens, token_types):
        e = self.bert.embeddings
        x = e.word_embeddings(tokens) + e.token_type_embeddings(token_types)
        x = e.LayerNorm(x + e.position_embeddings.weight[: tokens.shape[1]])
        for layer in self.bert.encoder.layer:
            own, out = getattr(layer.attention, "self"), layer.attention.output
            x = out.LayerNorm(out.dense(attend(own.query(x), own.key(x), own.value(x), self.heads)) + x)
            x = layer.output.LayerNorm(layer.output.dense(f.gelu(layer.intermediate.dense(x))) + x)
        head = self.cls.predictions
        x = head.transform.LayerNorm(f.gelu(head.transform.dense(x)))
        return f.linear(x, e.word_embeddings.weight, head.bias)


class Vit(nn.Module):
    def __init__(self, image=6, patch=3, layers=2, heads=2, width=6, classes=7):
        super().__init__()
        self.heads = heads
        norm = lambda: nn.LayerNorm(width, eps=1e-6)
        linear = lambda inputs=width, outputs=width: nn.Linear(inputs, outputs)
        layer = lambda: group(
            attention=group(attention=group(query=linear(), key=linear(), value=linear()), output=group(dense=linear())),
            intermediate=group(dense=linear(width, 4 * width)), output=group(dense=linear(4 * width)),
            layernorm_before=norm(), layernorm_after=norm())
        embeddings = group(cls_token=nn.Parameter(torch.zeros(1, 1, width)),
                           position_embeddings=nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width)),
                           patch_embeddings=group(projection=nn.Conv2d(3, width, patch, patch)))
        self.vit = group(embeddings=embeddings, layernorm=norm(),
                         encoder=group(layer=nn.ModuleList(layer() for _ in range(layers))))
        self.classifier = linear(width, classes)

    def forward(self, image):
        e = self.vit.embeddings
        x = e.patch_embeddings.projection(image).flatten(2).transpose(1, 2)
        x = torch.cat([e.cls_token.expand(len(x), -1, -1), x], 1) + e.position_embeddings
        for layer in self.vit.encoder.layer:
            y, own = layer.layernorm_before(x), layer.attention.attention
            x = x + layer.attention.output.dense(attend(own.query(y), own.key(y), own.value(y), self.heads))
            x = x + layer.output.dense(f.gelu(layer.intermediate.dense(layer.layernorm_after(x))))
        return self.classifier(self.vit.layernorm(x)[:, 0])
