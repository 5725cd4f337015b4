import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

config = T5Config(
    d_model=768, d_ff=2048, num_layers=12, num_heads=12, feed_forward_proj="gated-gelu", vocab_size=32128,
    decoder_start_token_id=0,
)
model = T5ForConditionalGeneration(config).cuda().train()
model.gradient_checkpointing_enable()
model.config.use_cache = False
optimizer = Adafactor(model.parameters(), lr=1e-3, relative_step=False, scale_parameter=False)
for step in range(3):
    source = torch.randint(1, 32000, (12, 384), device="cuda")
    target = torch.randint(1, 32000, (12, 96), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=source, attention_mask=torch.ones_like(source), labels=target).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
