"""What repeated blocks hold is one row; needs no PyTorch."""

import importlib.util
import os
import unittest

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "plimsoll", "torch", "phases.py")
spec = importlib.util.spec_from_file_location("phases", path)
phases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(phases)


class Merged(unittest.TestCase):
    def test_blocks_are_one_row(self):
        rows = phases.merged({f"Gpt.blocks.{i}.mlp.0": 100 for i in range(12)})
        self.assertEqual(rows, [("Gpt.blocks.[0-11].mlp.0", 1200, 12)])

    def test_parts_of_a_block_stay_apart_and_the_largest_is_first(self):
        rows = phases.merged({"G.h.0.up": 5, "G.h.1.up": 5, "G.h.0.down": 70, "G.h.2.up": 5, "G.head": 30})
        self.assertEqual(rows, [("G.h.0.down", 70, 1), ("G.head", 30, 1), ("G.h.[0-2].up", 15, 3)])

    def test_a_number_at_the_end_is_merged_where_the_bytes_are_equal(self):
        rows = phases.merged({"Gpt.blocks.0": 60, "Gpt.blocks.1": 60, "Gpt.blocks.3": 60, "Gpt.blocks.2": 10})
        self.assertEqual(rows, [("Gpt.blocks.[0-1,3]", 180, 3), ("Gpt.blocks.2", 10, 1)])

    def test_names_without_numbers_are_kept(self):
        self.assertEqual(phases.merged({"backward": 7}), [("backward", 7, 1)])


class Categories(unittest.TestCase):
    def category(self, phase, end_us, updates):
        phases._times[:], phases._marks[:] = [0, 1000], [(phases.OUTSIDE, ""), (phase, "")]
        made = phases.Allocation(begin=0, bytes=64, stream=0, time_us=2, end=None if end_us is None else 9, end_us=end_us)
        return phases._classify(made, updates)

    def test_the_loss_is_an_activation(self):
        self.assertEqual(self.category(phases.AFTER, 5, [8]), ("activation", phases.LOSS))

    def test_what_is_made_outside_and_kept_is_a_parameter(self):
        self.assertEqual(self.category(phases.OUTSIDE, None, [8]), ("parameter", ""))

    def test_what_is_made_outside_and_freed_is_an_input(self):
        self.assertEqual(self.category(phases.OUTSIDE, 5, [8]), ("input", ""))


if __name__ == "__main__":
    unittest.main()
