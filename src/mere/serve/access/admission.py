"""Limits who may be connected: clients logging in, connections per user, and the rate of wrong passwords."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil

from mere.serve.protocol.port import PgError

_PATIENCE = 2.0  # seconds that a client which is logging in has, however many there are


class Places:
    """Of clients that are logged in; one user leaves a few of them to the others. Threads may use it together."""

    def __init__(self, most: int, per_user: int | None = None) -> None:
        self.most = most
        self.per_user = per_user or max(1, most - most // 10)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        return self._taken.total()

    def take(self, user: str) -> None:
        with self._lock:
            if self.taken >= self.most:
                raise PgError("53300", "sorry, too many clients already")
            if self._taken[user] >= self.per_user:
                raise PgError("53300", f'too many connections for role "{user}"')
            self._taken[user] += 1

    def give_back(self, user: str) -> None:
        with self._lock:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]


@dataclass(frozen=True)
class _Arrival:
    number: int
    address: str
    since: float
    cut: Callable[[], None]


class Arrivals:
    """Clients that are logging in. Where they are too many, those that take long make room for those that come, first
    those of the address with the most of them; up to `crowd` may come at once."""

    def __init__(self, most: int, per_address: int, crowd: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._per_address = per_address
        self._crowd = crowd
        self._clock = clock
        self._numbers = count()
        self._of: dict[str, OrderedDict[int, _Arrival]] = {}  # by address
        self.present = 0

    def enter(self, address: str, cut: Callable[[], None]) -> _Arrival | None:
        """What `leave` is given; None if there is no room. `cut` hangs up on the client."""
        address = machine(address)
        if self.present >= self._crowd or len(self._of.get(address, ())) >= max(1, self._crowd // 2):
            self.thin_out()
        if self.present >= self._crowd or len(self._of.get(address, ())) >= max(1, self._crowd // 2):
            return None
        arrival = _Arrival(next(self._numbers), address, self._clock(), cut)
        self._of.setdefault(address, OrderedDict())[arrival.number] = arrival
        self.present += 1
        return arrival

    def leave(self, arrival: _Arrival) -> None:
        """Idempotent."""
        of_address = self._of.get(arrival.address, OrderedDict())
        if of_address.pop(arrival.number, None) is not None:
            self.present -= 1
            if not of_address:
                del self._of[arrival.address]

    def thin_out(self) -> bool:
        """Hang up on those that are too many and had their time. True if there are still too many."""
        for address in list(self._of):
            while len(self._of.get(address, ())) > self._per_address and self._cut_oldest(address):
                pass
        while self.present > self.most:
            crowded = sorted(self._of, key=lambda address: -len(self._of[address]))
            if not any(self._cut_oldest(address) for address in crowded):
                break
        return self.present > self.most or any(len(each) > self._per_address for each in self._of.values())

    def _cut_oldest(self, address: str) -> bool:
        oldest = next(iter(self._of[address].values()))
        if self._clock() - oldest.since < _PATIENCE:
            return False
        self.leave(oldest)
        oldest.cut()
        return True


_FIRST, _LONGEST = 0.25, 8.0  # seconds
_FREE = 20  # failures of an address as a whole that cost nothing
_FORGOTTEN = 15 * 60.0  # seconds
_KEPT = 10_000
_NAME = 100  # characters of a name that are told apart


@dataclass
class _Failures:
    count: int
    next: float  # when another attempt is looked at
    last: float


class Guesses:
    """Failed logins: with each of them the next one of that user from that address waits longer, and after many of
    them every login from there does. Other addresses are not concerned: nobody can lock a user out from elsewhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of_user: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._of_address: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def left(self, user: str, address: str) -> float:
        """The seconds before an attempt may be looked at."""
        with self._lock:
            return self._left([each for each, _ in self._suspect(user, address)])

    def wait(self, user: str, address: str) -> float:
        """The same, for one that waits for so long: others wait until after it. PgError where too many of them do."""
        with self._lock:
            suspect = self._suspect(user, address)
            found = self._left([each for each, _ in suspect])
            if found > 2 * _LONGEST:
                raise too_many_guesses(found)
            for failures, delay in suspect:
                failures.next = max(failures.next, self._clock() + found + delay)
            return found

    def _suspect(self, user: str, address: str) -> list[tuple[_Failures, float]]:
        """What is known to have failed, and by how much it makes others wait."""
        found = []
        for known, key, free in self._places(user, address):
            failures = known.get(key)
            if failures is not None and self._clock() - failures.last > _FORGOTTEN:
                del known[key]
            elif failures is not None and (delay := _delay(failures.count - free)):
                found.append((failures, delay))
        return found

    def _left(self, failures: Sequence[_Failures]) -> float:
        return max([0.0, *(each.next - self._clock() for each in failures)])

    def failed(self, user: str, address: str) -> None:
        with self._lock:
            self._failed(user, address)

    def _failed(self, user: str, address: str) -> None:
        now = self._clock()
        for known, key, free in self._places(user, address):
            failures = known.setdefault(key, _Failures(0, now, now))
            failures.count += 1
            failures.last = now
            failures.next = max(failures.next, now + _delay(failures.count - free))
            known.move_to_end(key)
            if len(known) > _KEPT:
                known.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """The address stays suspect: who guesses may have a password of their own."""
        with self._lock:
            self._of_user.pop((user[:_NAME], machine(address)), None)

    def _places(
        self, user: str, address: str
    ) -> list[tuple[OrderedDict[tuple[str, str], _Failures], tuple[str, str], int]]:
        where = machine(address)
        places = [(self._of_user, (user[:_NAME], where), 0)]
        return [*places, (self._of_address, ("", where), _FREE)] if where else places  # it may not be known


def too_many_guesses(seconds: float) -> PgError:
    return PgError("28000", "too many failed logins", hint=f"Try again in {ceil(seconds)} s.")


def _delay(failures: int) -> float:
    return min(_LONGEST, _FIRST * 2 ** min(failures - 1, 20)) if failures > 0 else 0.0


def machine(client: str) -> str:
    """Of an address with a port. Of IPv6, everybody has a whole network."""
    host = client.rpartition(":")[0]
    try:
        found = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
