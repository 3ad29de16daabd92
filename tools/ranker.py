"""Learn how much each thing that can be said about an entry counts (`agentm.index.ranker`).

    python tools/ranker.py DATA

DATA has the shape that `bench/locomo.py` reads. Needs lightgbm and numpy. What is learned is a sum of steps, one table
for each feature, and most may only rise: so few conversations cannot teach it their own quirks, and it stays sensible
on notes that look like none of them. How well that carries over is not seen here; `bench/locomo.py` learns without each
conversation in turn and measures on it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from agentm.index.ranker import PATH
from agentm.index.ranking import ask, features, find, looked_at
from agentm.index.schema import schema
from bench.locomo import FIRST, Conversation, indexed, read

NEVER_FALLS = frozenset(
    (
        "whole", "whole of best", "body", "body of best", "context", "meaning", "meaning of best", "meaning around",
        "meaning with before", "meaning with before of best", "covered", "covered around", "who", "date", "answers",
    )
)  # fmt: skip
ROUNDS, SEEDS = 200, 4
SETTINGS = {
    "objective": "lambdarank",
    "lambdarank_truncation_level": 20,
    "num_leaves": 2,
    "learning_rate": 0.15,
    "min_data_in_leaf": 40,
    "lambda_l2": 5,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "num_threads": 2,
    "deterministic": True,
    "verbose": -1,
}

Example = tuple[list[dict[str, float]], list[int]]
"""The candidates of a question, and which of them were wanted."""


def examples(conversation: Conversation) -> list[Example]:
    """What the ranker is shown of a conversation."""
    searcher = indexed(conversation)
    shown = []
    for question in conversation.questions:
        asked = ask(searcher, question.text)
        found = find(searcher, schema(), asked, many=looked_at(FIRST))
        wanted = [int(conversation.turns[entry.record].id in question.evidence) for entry in found]
        if any(wanted):
            shown.append((features(asked, found), wanted))
    return shown


def learn(shown: Sequence[Example]) -> str:
    """The table, as the package reads it."""
    lightgbm, np = (import_module(name) for name in ("lightgbm", "numpy"))
    names = sorted(shown[0][0][0])
    rows = np.array([[row[name] for name in names] for candidates, _ in shown for row in candidates])
    wanted = np.array([one for _, labels in shown for one in labels])
    sizes = [len(labels) for _, labels in shown]
    steps: dict[str, dict[float, float]] = {name: {} for name in names}
    base = dict.fromkeys(names, 0.0)
    for seed in range(SEEDS):
        settings = SETTINGS | {"seed": seed, "monotone_constraints": [int(name in NEVER_FALLS) for name in names]}
        model = lightgbm.train(settings, lightgbm.Dataset(rows, wanted, group=sizes), ROUNDS)
        for tree in model.dump_model()["tree_info"]:
            add_up(tree["tree_structure"], names, base, steps)
    return "".join(f"{line}\n" for name in names if steps[name] for line in [written(name, base[name], steps[name])])


def add_up(tree: Any, names: Sequence[str], base: dict[str, float], steps: dict[str, dict[float, float]]) -> None:
    """A tree with two leaves is a step at a bound."""
    if "split_feature" not in tree:
        return
    name, bound = names[tree["split_feature"]], float(f"{tree['threshold']:.5g}")
    low, high = (tree[side]["leaf_value"] / SEEDS for side in ("left_child", "right_child"))
    base[name] += low
    steps[name][bound] = steps[name].get(bound, 0.0) + high - low


def written(name: str, value: float, steps: dict[float, float]) -> str:
    numbers = [f"{value:.4f}"]
    for bound in sorted(steps):
        value += steps[bound]
        numbers += [f"{bound:.5g}", f"{value:.4f}"]
    return f"{name}: {' '.join(numbers)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn the ranker's table.")
    parser.add_argument("data", help="conversations with questions, as bench/locomo.py reads them")
    options = parser.parse_args()
    table = learn([example for conversation in read(options.data) for example in examples(conversation)])
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(table)
    print(f"{len(table):,} bytes in {PATH}")


if __name__ == "__main__":
    main()
