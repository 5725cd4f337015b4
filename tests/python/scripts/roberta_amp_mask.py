import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

model = RobertaForSequenceClassification(RobertaConfig(num_labels=3)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
scaler = torch.cuda.amp.GradScaler()
for step in range(3):
    ids = torch.randint(5, 30000, (32, 200), device="cuda")
    mask = torch.ones_like(ids)
    mask[:, 150:] = 0
    labels = torch.randint(0, 3, (32,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(input_ids=ids, attention_mask=mask, labels=labels)
    optimizer.zero_grad()
    scaler.scale(out.loss).backward()
    scaler.step(optimizer)
    scaler.update()
    accuracy = (out.logits.argmax(-1) == labels).float().mean().item()
