"""Whether the workers are called: the faster way wins under noise, and a change of the machine is noticed."""

import numpy as np
import pytest

from engine.context.team import TRY_EVERY, TRY_FIRST, Choice


def run(choice, replays, team_ns, alone_ns, rng, spikes=0.0):
    """How many of the replays went with the team."""
    count = 0
    for _ in range(replays):
        team = choice.with_team()
        count += team
        span = (team_ns if team else alone_ns) * rng.uniform(0.9, 1.1)
        choice.took(span * (40.0 if rng.random() < spikes else 1.0))
    return count


@pytest.mark.parametrize("spikes", [0.0, 0.05])
@pytest.mark.parametrize("team_ns, alone_ns", [(1e6, 1.8e6), (1.4e6, 1e6), (1e6, 1.2e6), (1.2e6, 1e6)])
@pytest.mark.parametrize("seed", range(5))
def test_the_faster_way_wins(team_ns, alone_ns, spikes, seed):
    rng, choice = np.random.default_rng(seed), Choice()
    run(choice, TRY_FIRST + 20 * TRY_EVERY, team_ns, alone_ns, rng, spikes)
    chosen = run(choice, 10 * TRY_EVERY, team_ns, alone_ns, rng, spikes)
    assert (chosen >= 8 * TRY_EVERY) == (team_ns < alone_ns) and chosen != 5 * TRY_EVERY


def test_a_busy_machine_is_noticed_and_its_end_too():
    rng, choice = np.random.default_rng(0), Choice()
    replays = 20 * TRY_EVERY
    for team_ns, team in ((1e6, True), (3e6, False), (1e6, True)):
        run(choice, replays, team_ns, 1.7e6, rng)
        assert choice.team is team


def test_little_time_goes_into_tries():
    choice = Choice()
    usual = run(choice, 100 * TRY_EVERY, 1e6, 2e6, np.random.default_rng(0))
    assert usual >= 100 * (TRY_EVERY - 1) - TRY_FIRST


def test_a_clock_that_stands_still_does_no_harm():
    choice = Choice()
    for _ in range(100):
        choice.with_team()
        choice.took(0)
    assert choice.team
