"""Renders ahead of training in processes of its own, in order: the n-th picture or clip depends on its number alone, so workers change nothing but speed."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")
AHEAD_PER_WORKER = 4  # results that wait; bounds memory


class RenderAhead(Generic[Made]):
    """`render(n)` for n = first, first + 1, …; in this process when `workers` is 0. `render` must be picklable."""

    def __init__(self, render: Callable[[int], Made], first: int, workers: int) -> None:
        self._render, self._next, self._asked = render, first, first
        self._waiting: deque[Future[Made]] = deque()
        self._ahead = AHEAD_PER_WORKER * workers
        # spawn: a forked child would inherit the state of torch's threads
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) if workers else None

    def take(self) -> Made:
        """The next one. Raises what rendering raised."""
        self._next += 1
        if self._pool is None:
            return self._render(self._next - 1)
        while len(self._waiting) <= self._ahead:
            self._waiting.append(self._pool.submit(self._render, self._asked))
            self._asked += 1
        return self._waiting.popleft().result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._waiting.clear()
