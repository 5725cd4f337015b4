import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    hidden_size=1536, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=12, num_key_value_heads=4,
    vocab_size=32000, pad_token_id=0, eos_token_id=None,
)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.float16).eval()
with torch.inference_mode():
    for batch in (8, 16):
        ids = torch.randint(1, 32000, (batch, 400), device="cuda")
        cache = None
        for _ in range(60):
            out = model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            ids = out.logits[:, -1].argmax(-1, keepdim=True)
