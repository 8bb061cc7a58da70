"""Whether a graph is worth calling the workers for, found by trying both ways now and then.

Work that would be done sooner by several workers on idle cores is done later where other processes hold these cores, or
where what the workers hand to each other takes longer than what they save. No price list knows that; the clock does.
"""

from __future__ import annotations

from math import exp, log

TRY_EVERY = 17  # replays; odd, so that it does not always meet the replays that time each launch
TRY_FIRST = 12  # replays at the beginning, of which every other one is a try
TRIES = 3  # before the way is changed for the first time
STEP = 0.25  # weight of a try among those before
MOST = 0.7  # logarithm of a ratio that one try may tell; an interrupted replay looks far too long
MARGIN = 0.03  # logarithm of the gain that a change is worth


class Choice:
    """Call `with_team()` before a replay and `took()` after it; one replay at a time."""

    def __init__(self) -> None:
        self.team = True  # the usual way
        self.replays = 0
        self.tries = 0
        self.usual = 0.0  # nanoseconds of a replay the usual way: moves by a quarter at most, so it follows the median
        self.gain = 0.0  # logarithm of how many times as fast the other way is

    def with_team(self) -> bool:
        return self.team != self._is_try()

    def _is_try(self) -> bool:
        if self.replays < TRY_FIRST:
            return self.replays % 2 == 1
        return self.replays % TRY_EVERY == 0

    def took(self, nanoseconds: float) -> None:
        found = max(nanoseconds, 1.0)
        if not self._is_try():
            self.usual = min(max(found, 0.8 * self.usual), 1.25 * self.usual) if self.replays else found
        else:
            self.tries += 1
            told = min(max(log(self.usual / found), -MOST), MOST)
            self.gain += max(STEP, 1.0 / self.tries) * (told - self.gain)
            if self.tries >= TRIES and self.gain > MARGIN:
                self.team, self.usual, self.gain = not self.team, self.usual * exp(-self.gain), -self.gain
        self.replays += 1
