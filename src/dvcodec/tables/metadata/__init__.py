"""What the metadata of several formats share: fields of JSON and of Avro, and here a bounded LRU cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """The most recently used values by key; safe to use from several threads.

    Args:
        most: capacity, in the unit of `cost`.
        cost: returns the cost of a value. A value that exceeds the capacity is not kept.
    """

    def __init__(self, most: int, cost: Callable[[V], int]) -> None:
        self._most = most
        self._cost = cost
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def find(self, key: K) -> V | None:
        """Return the value of a key, None if it is not cached."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; `make` reads it if it is not cached. Errors are not cached."""
        known = self.find(key)
        if known is not None:
            return known
        value = make()  # two threads may both read it: better than one waiting for another's file
        self.add(key, value)
        return value

    def add(self, key: K, value: V) -> None:
        """Keep a value, unless the key has one or it exceeds the capacity."""
        cost = self._cost(value)
        with self._lock:
            if key not in self._kept and cost <= self._most:
                self._kept[key] = value, cost
                self._total += cost
                while self._total > self._most:
                    self._total -= self._kept.popitem(last=False)[1][1]
