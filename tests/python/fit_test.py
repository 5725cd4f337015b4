#!/usr/bin/env python3
"""plimsoll.torch.fit on the CPU: what is chosen, and that training is as without it. Exits 77 without PyTorch."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
try:
    import torch
    from torch import nn
except ImportError:
    print("no PyTorch")
    sys.exit(77)

import plimsoll.torch
from plimsoll.torch import batches, blocks, fitting
from plimsoll.torch.sizes import format_bytes, parse_bytes

torch.set_num_threads(1)  # the models are tiny, and other threads only wait
COUNTS_STORAGES = hasattr(torch.Tensor, "untyped_storage")


class Block(nn.Module):
    def __init__(self, width, norm=False):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.norm = nn.BatchNorm1d(4 * width) if norm else nn.Identity()
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, scale=1.0):
        return x + scale * self.dropout(self.down(torch.relu(self.norm(self.up(x)))))


class Net(nn.Module):
    def __init__(self, layers=6, width=32, norm=False):
        super().__init__()
        self.layers = nn.ModuleList([Block(width, norm) for _ in range(layers)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, scale=0.5)
        return self.head(x)


class Setting:
    """A model, its optimizer, a batch and the loss; the same for every instance."""

    def __init__(self, samples=256, **kind):
        torch.manual_seed(0)
        self.model = Net(**kind)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.batch = (torch.randn(samples, 32), torch.randint(0, 10, (samples,)))
        torch.manual_seed(1)

    def loss(self, batch):
        return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def fit(self, budget, **options):
        return plimsoll.torch.fit(self.model, budget, self.loss, self.batch, self.optimizer, **options)

    def train(self, step, steps=4):
        losses = []
        for _ in range(steps):
            losses.append(step(self.batch).item().hex())
            self.optimizer.step()
            self.optimizer.zero_grad()
        return losses

    def problem(self, **options):
        given = dict(count=None, backward=None, allow_batch_norm=False, most_micro_batches=64)
        given.update(options)
        return fitting._Problem(self.model, self.loss, self.batch, self.optimizer, **given)


def whole_gradients(setting):
    setting.model.eval()  # no dropout, whose random numbers are others in micro-batches
    setting.loss(setting.batch).backward()
    found = [parameter.grad.clone() for parameter in setting.model.parameters()]
    setting.model.zero_grad()
    return found


class Checkpointing(unittest.TestCase):
    def train(self, checkpointed, **kind):
        setting = Setting(**kind)
        fitted = fitting.Fitted(setting.problem(), fitting.Candidate(checkpointed, 1))
        return setting, setting.train(fitted)

    def test_losses_are_equal_to_the_bit(self):
        _, plain = self.train(0)
        for count in (1, 4, 6):
            self.assertEqual(self.train(count)[1], plain)

    def test_batch_statistics_are_updated_once(self):
        plain, losses = self.train(0, norm=True)
        fitted, same = self.train(6, norm=True)
        self.assertEqual(losses, same)
        for a, b in zip(plain.model.buffers(), fitted.model.buffers()):
            self.assertTrue(torch.equal(a, b))

    def test_undo_restores_the_blocks(self):
        setting = Setting()
        with fitting.Fitted(setting.problem(), fitting.Candidate(6, 1)):
            self.assertIn("forward", vars(setting.model.layers[0]))
        self.assertNotIn("forward", vars(setting.model.layers[0]))

    def test_blocks_are_the_outermost_that_repeat(self):
        two = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Block(4), Block(4)), nn.Sequential(Block(4)))
        self.assertEqual(blocks.find_blocks(two), list(two[1]))
        self.assertEqual(blocks.find_blocks(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))), [])

    def test_a_cache_is_filled_once(self):
        class Cache:
            def __init__(self):
                self.layers = []

            def update(self, value):
                self.layers.append(value)
                return len(self.layers)

            def get_seq_length(self):
                return len(self.layers)

        class Caching(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 4)

            def forward(self, x, cache):
                return self.inner(x) * cache.update(x)

        layers = nn.ModuleList([Caching(), Caching()])
        cache, x = Cache(), torch.ones(2, 4)
        checkpointing = blocks.Checkpointing(list(layers), 1)
        result = layers[0](x, cache=cache).sum()
        result.backward()
        self.assertEqual(cache.get_seq_length(), 0)
        checkpointing.undo()


class MicroBatches(unittest.TestCase):
    def test_gradients_are_those_of_the_whole_batch(self):
        for parts in (2, 3, 7):  # 250 is not divided by 3 or 7
            setting = Setting(samples=250)
            whole = whole_gradients(setting)
            loss = setting.problem().run(setting.batch, parts)
            self.assertAlmostEqual(loss.item(), setting.loss(setting.batch).item(), places=5)
            for parameter, wanted in zip(setting.model.parameters(), whole):
                self.assertTrue(torch.allclose(parameter.grad, wanted, rtol=1e-4, atol=1e-6))

    def test_means_are_over_what_is_counted(self):
        setting = Setting(samples=250)
        setting.batch[1][:120] = -100  # the first micro-batch has 5 labels, the second 125
        setting.loss = lambda batch: nn.functional.cross_entropy(setting.model(batch[0]), batch[1], ignore_index=-100)
        whole = whole_gradients(setting)
        setting.problem(count=lambda batch: (batch[1] != -100).sum()).run(setting.batch, 2)
        for parameter, wanted in zip(setting.model.parameters(), whole):
            self.assertTrue(torch.allclose(parameter.grad, wanted, rtol=1e-4, atol=1e-6))

    def test_nested_batches_are_split_by_their_first_axis(self):
        batch = {"ids": torch.arange(10), "extra": [torch.arange(20).view(10, 2), "name"], "scale": torch.tensor(2.0)}
        first, second, third = batches.split(batch, 3)
        self.assertEqual([len(part["ids"]) for part in (first, second, third)], [4, 4, 2])
        self.assertEqual(third["extra"][0].tolist(), [[16, 17], [18, 19]])
        self.assertEqual(third["scale"].item(), 2.0)

    def test_batch_norm_refuses_them(self):
        setting = Setting(norm=True)
        problem = setting.problem()
        problem.returns_loss = True
        self.assertEqual(problem.most_parts(), 1)
        allowed = setting.problem(allow_batch_norm=True)
        allowed.returns_loss = True
        self.assertEqual(allowed.most_parts(), 64)


@unittest.skipUnless(COUNTS_STORAGES, "this PyTorch has no storages to count")
class Fit(unittest.TestCase):
    def test_nothing_is_done_where_all_fits(self):
        fitted = Setting().fit("1GiB")
        self.assertEqual((fitted.checkpointed, fitted.micro_batches), (0, 1))

    def test_less_memory_takes_more_measures(self):
        plain = Setting().fit("1GiB").peak.allocated_bytes
        fitted = Setting().fit(int(0.75 * plain))
        self.assertGreater(fitted.checkpointed, 0)
        self.assertLessEqual(fitted.peak.allocated_bytes, 0.75 * plain)

    def test_only_checkpointing_keeps_the_losses(self):
        plain = Setting()
        losses = plain.train(plain.fit("1GiB"))
        setting = Setting()
        fitted = setting.fit(int(0.75 * plain.fit("1GiB").peak.allocated_bytes), most_micro_batches=1)
        self.assertGreater(fitted.checkpointed, 0)
        self.assertEqual(setting.train(fitted), losses)

    def test_the_least_budget_of_a_refusal_suffices(self):
        with self.assertRaises(plimsoll.torch.DoesNotFit) as refused:
            Setting().fit("100KiB")
        least = refused.exception.least_bytes
        self.assertIn("least budget", str(refused.exception))
        self.assertLessEqual(Setting().fit(least).peak.allocated_bytes, least)
        with self.assertRaises(plimsoll.torch.DoesNotFit):
            Setting().fit(least - 1)

    def test_a_loss_needs_an_optimizer(self):
        setting = Setting()
        with self.assertRaisesRegex(TypeError, "optimizer="):
            plimsoll.torch.fit(setting.model, "1GiB", setting.loss, setting.batch)


class Sizes(unittest.TestCase):
    def test_text_is_read_for_what_it_says(self):
        self.assertEqual(parse_bytes("1.5GiB"), 3 << 29)
        self.assertEqual(parse_bytes("2 GB"), 2_000_000_000)
        self.assertEqual(format_bytes(3 << 29), "1.50 GiB")
        with self.assertRaisesRegex(ValueError, "expected a size like 16GiB"):
            parse_bytes("much")


if __name__ == "__main__":
    unittest.main()
