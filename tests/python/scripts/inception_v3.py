import torch
import torchvision

model = torchvision.models.inception_v3(aux_logits=False, init_weights=False).cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss()
for step in range(3):
    x = torch.randn(32, 3, 299, 299, device="cuda")
    y = torch.randint(0, 1000, (32,), device="cuda")
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
