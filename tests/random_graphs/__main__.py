"""`python -m random_graphs SEED [FILE]` (in the folder tests): show the model of a seed, compare it, save it."""

from __future__ import annotations

import argparse
import os


def main() -> None:
    """Print the model and what differs."""
    parser = argparse.ArgumentParser(prog="random_graphs", description="Show, compare and save a random model.")
    parser.add_argument("seed", type=int)
    parser.add_argument("file", nargs="?", help="where to write the model")
    parser.add_argument("--show-only", action="store_true", help="do not run it")
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

    import onnx

    from random_graphs.compare import mismatches
    from random_graphs.generate import random_model

    model = random_model(given.seed)
    print(onnx.printer.to_text(model.proto))
    if given.file:
        onnx.save(model.proto, given.file)
    if not given.show_only:
        print("\n".join(mismatches(model)) or "no difference")


if __name__ == "__main__":
    main()
