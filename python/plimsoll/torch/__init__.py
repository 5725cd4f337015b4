"""Plimsoll for PyTorch: what a script will take on a card, before it runs there."""
