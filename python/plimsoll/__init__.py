"""Plimsoll: deep learning inside a memory budget."""
