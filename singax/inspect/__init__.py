"""Seeing a model before paying for it: dry runs, summaries, graphs."""
