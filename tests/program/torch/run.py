"""Runs every cases_*.py of this folder: run.py PROGRAM_EVAL. Exits 77 (skipped) where PyTorch is not installed."""
import importlib
import pathlib
import sys

try:
    import torch
except ImportError:
    print("PyTorch is not installed (python3-torch): skipped")
    sys.exit(77)

import harness

torch.set_num_threads(1)
harness.evaluator = harness.Evaluator(sys.argv[1])
for path in sorted(pathlib.Path(__file__).parent.glob("cases_*.py")):
    importlib.import_module(path.stem)
print(f"{harness.cases} cases, {len(harness.failures)} differ from PyTorch")
sys.exit(1 if harness.failures or harness.cases == 0 else 0)
