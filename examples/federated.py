"""Horizontal federated learning: hospitals train on their own patients, and only weights travel.

    python examples/federated.py

Each client holds a part of the breast-cancer data of `breast_cancer.py` and never shows it. In every round the server
sends its weights, each client trains on its own samples, and the server averages what comes back, weighted by the
numbers of samples (McMahan et al. 2017). Client and server exchange plain arrays by name: `get_states`, `set_states`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from breast_cancer import Diagnosis, report, samples
from data import batches

import singax as sx

Weights = dict[str, np.ndarray]


class Client:
    """One hospital: its samples, its copy of the model, its own optimizer."""

    def __init__(self, x: np.ndarray, y: np.ndarray, batch: int) -> None:
        self.x, self.y, self.batch = x, y, min(batch, len(x))
        self.model = Diagnosis()
        self.model.compile([sx.Placeholder((self.batch, x.shape[1]))])

    def train(self, weights: Weights, epochs: int, rng: np.random.Generator) -> Weights:
        """Start from the server's weights; returns those after some epochs on the client's samples."""
        self.model.set_states(weights)
        self.model.train()
        for _ in range(epochs):
            for x, y in batches((self.x, self.y), self.batch, rng):
                self.model(x, y)
        return weights_of(self.model)


def weights_of(model: sx.Module) -> Weights:
    """What travels: arrays by name."""
    return {name: tensor.to_numpy() for name, tensor in model.get_states().items()}


def averaged(updates: Sequence[Weights], counts: Sequence[int]) -> Weights:
    """The mean of the clients' weights, each counting as much as it has samples."""
    parts = [count / sum(counts) for count in counts]
    return {name: sum(part * update[name] for part, update in zip(parts, updates, strict=True)) for name in updates[0]}


def divided(labels: np.ndarray, clients: int, skew: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of each client's samples. The larger `skew`, the more the clients differ in their share of each class."""
    parts: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(clients, 1 / skew))
        bounds = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        for part, chosen in zip(parts, np.split(members, bounds), strict=True):
            part += chosen.tolist()
    return [np.array(part) for part in parts]


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, print the figures after some rounds, return the last ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=2, help="epochs of each client in a round")
    parser.add_argument("--skew", type=float, default=0.5, help="how much the clients differ")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)

    data, rng = samples(args.seed), np.random.default_rng(args.seed)
    sx.device.get_default_device().SetRandSeed(args.seed)
    parts = divided(data.train_y, args.clients, args.skew, rng)
    clients = [Client(data.train_x[part], data.train_y[part], args.batch) for part in parts if len(part)]
    server = Diagnosis()
    server.compile([sx.Placeholder((len(data.test_x), data.test_x.shape[1]))], is_train=False)

    for turn in range(1, args.rounds + 1):
        sent = weights_of(server)
        updates = [client.train(sent, args.epochs, rng) for client in clients]
        server.set_states(averaged(updates, [len(client.x) for client in clients]))
        figures = report(server, data.test_x, data.test_y)
        if turn % 5 == 0 or turn == args.rounds:
            shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
            print(f"round {turn:2}, clients with {', '.join(str(len(c.x)) for c in clients)} samples: {shown}")
    return figures


if __name__ == "__main__":
    main()
