"""Processes that work on one store at the same time through an adapter, and the parent's way of letting them go.

python rivals.py ROLE STORE DIRECTORY NAME TIMES
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from typing import Any


def let_go(role: str, store: str, directory: str, names: str, times: int) -> list[Any]:
    """One process for each letter; all begin together. What each of them found out, in the order of the letters."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, sys.path)])}
    with ExitStack() as stack:
        started = []
        for name in names:
            command = [sys.executable, os.path.abspath(__file__), role, store, directory, name, str(times)]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            started.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(process.communicate(timeout=240)[0]) for process in started]


def wait() -> None:
    """Say that everything slow is done, the imports above all, and wait for the parent's word."""
    print("ready", flush=True)
    sys.stdin.readline()


def edit(backend: Any, name: str, times: int) -> Any:
    """Own lines are marked and added; a prize that both want is taken by one, and the other is shown by whom."""
    from anthropic.lib.tools import ToolError

    from agentm.adapters.anthropic_memory import AgentmMemoryTool

    tool = AgentmMemoryTool(backend)
    wait()
    won: list[int] = []
    shown: list[int] = []
    for n in range(times):
        path = {"path": "/memories/todo.md"}
        own = {"old_str": f"{name}{n}: open", "new_str": f"{name}{n}: done by {name}"}
        tool.call({"command": "str_replace", **path, **own})
        tool.call({"command": "insert", **path, "insert_line": 0, "insert_text": f"{name}-added {n}"})
        try:
            prize = {"old_str": f"prize{n}: open", "new_str": f"prize{n}: {name}"}
            tool.call({"command": "str_replace", **path, **prize})
            won.append(n)
        except ToolError as error:
            other = "b" if name == "a" else "a"
            if f"\tprize{n}: {other}\n" in f"{error.content}\n":
                shown.append(n)
    return {"won": won, "shown": shown}


def add(backend: Any, name: str, times: int) -> Any:
    from agentm.adapters.openai_session import AgentmSession

    session = AgentmSession("shared", backend)

    async def talk() -> None:
        for n in range(times):
            pair: Any = [{"role": "user", "content": f"{name}{n}"}, {"role": "assistant", "content": f"{name}{n}"}]
            await session.add_items(pair)

    wait()
    asyncio.run(talk())
    return None


def pop(backend: Any, name: str, times: int) -> Any:
    from agentm.adapters.openai_session import AgentmSession

    session = AgentmSession("shared", backend)

    async def take() -> list[Any]:
        return [await session.pop_item() for _ in range(times)]

    wait()
    return asyncio.run(take())


if __name__ == "__main__":
    from tests.backends.stores import make_store

    role, store, directory, name, times = sys.argv[1:]
    work = {"edit": edit, "add": add, "pop": pop}[role]
    print(json.dumps(work(make_store(store, directory), name, int(times))))
