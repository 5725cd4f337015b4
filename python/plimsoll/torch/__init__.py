"""Plimsoll for PyTorch: what a script will take on a card, before it runs there, and a step made to fit a budget."""


def __getattr__(name):
    # Late, so that the simulation, which is part of this package, does not import PyTorch.
    if name in ("fit", "max_batch", "DoesNotFit", "Fitted"):
        from . import fitting

        return getattr(fitting, name)
    raise AttributeError(f"module 'plimsoll.torch' has no attribute {name!r}")
