"""What starting costs, as multiples of a bare interpreter start, all measured in one run.

    python bench/startup.py [rounds]

The commands take turns, so that a busy moment of the machine hits all of them.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

PYTHON = sys.executable
AGENTM = os.path.join(sysconfig.get_path("scripts"), "agentm")

COMMANDS = {
    "python -c pass": [PYTHON, "-c", "pass"],
    'python -c "import agentm"': [PYTHON, "-c", "import agentm"],
    "agentm --version": [AGENTM, "--version"],
    "python -m agentm --version": [PYTHON, "-m", "agentm", "--version"],
    "agentm doctor": [AGENTM, "doctor"],
}
BARE = "python -c pass"
IMPORT = "import agentm (-X importtime)"
GOALS = {IMPORT: 0.5, "agentm --version": 3.0}


def child_environment(home: str) -> dict[str, str]:
    """The caller's environment, with its own home and with compiled modules, as an installed program has them."""
    dropped = {"AGENTM_INSTALL_PREFIX", "MEMORY_VAULT_PATH", "PYTHONDONTWRITEBYTECODE", "XDG_CACHE_HOME"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | {"HOME": home}


def seconds(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def import_seconds(environment: dict[str, str]) -> float:
    """What the interpreter itself says that importing agentm took, its imports included."""
    command = [PYTHON, "-X", "importtime", "-c", "import agentm"]
    report = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    match = re.search(r"\|\s*(\d+) \| agentm$", report, re.MULTILINE)
    if match is None:
        raise SystemExit("the interpreter did not report the import of agentm; run this with CPython")
    return int(match[1]) / 1e6


def measure(rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in [*COMMANDS, IMPORT]}
    with tempfile.TemporaryDirectory() as home:
        environment = child_environment(home)
        for number in range(rounds + 1):
            for name, command in COMMANDS.items():
                times[name].append(seconds(command, environment))
            times[IMPORT].append(import_seconds(environment))
            if number == 0:  # the first round compiles modules and fills caches
                times = {name: [] for name in times}
    return times


def show(times: dict[str, list[float]]) -> None:
    bare = statistics.median(times[BARE])
    print(f"{'':32}{'median':>10}{'min':>10}{'× bare':>9}  goal")
    for name, values in times.items():
        median = statistics.median(values)
        ratio = median / bare
        goal = f"≤ {GOALS[name]:.1f} ×  {'met' if ratio <= GOALS[name] else 'MISSED'}" if name in GOALS else ""
        print(f"{name:32}{median * 1e3:7.2f} ms{min(values) * 1e3:7.2f} ms{ratio:9.2f}  {goal}".rstrip())


if __name__ == "__main__":
    show(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
