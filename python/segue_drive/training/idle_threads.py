"""How many threads training uses: all while the machine is idle, one while others work.

With a foreign process on a core, every parallel region waits for the thread that shares it: two threads on two busy cores were measured five to
ten times slower than one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

LOOK_EVERY = 4.0  # seconds
BUSY_CORES = 0.35  # of normal-priority work, from which on one thread is faster


class IdleThreads:
    """Call `adapt()` once a step. Counts only time of processes without a nice value, so training doesn't see itself when it is niced."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: tuple[float, int, int] | None = None
        torch.set_num_threads(most)
        torch.set_flush_denormal(True)  # fading activations otherwise take a slow path

    @staticmethod
    def _read() -> tuple[int, int]:
        fields = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
        return fields[0] + fields[2], sum(fields)  # user and system, all

    def adapt(self) -> None:
        now = time.monotonic()
        if self._most == 1 or (self._last is not None and now - self._last[0] < LOOK_EVERY):
            return
        try:
            busy, total = self._read()
        except OSError:  # no /proc: keep what was asked for
            return
        if self._last is not None and total > self._last[2]:
            cores = (busy - self._last[1]) / (total - self._last[2]) * (os.cpu_count() or 1)
            wanted = 1 if cores > BUSY_CORES else self._most
            if torch.get_num_threads() != wanted:
                torch.set_num_threads(wanted)
        self._last = (now, busy, total)
