import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(5, 30000, (160,), generator=generator)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": index % 2}


model = BertForSequenceClassification(BertConfig(num_labels=2))
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=24,
    gradient_accumulation_steps=2,
    max_steps=4,
    learning_rate=2e-5,
    bf16=True,
    logging_steps=2,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
Trainer(model=model, args=arguments, train_dataset=Sentences()).train()
