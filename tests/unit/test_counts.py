"""How fast counts grow."""

from __future__ import annotations

from quinque.server.counts import Rates, Stats


def test_rates_are_those_between_the_last_two_measurements() -> None:
    rates = Rates()
    rates.measure(10.0, 100, Stats(input_bytes=1_000, output_bytes=50))
    assert (rates.commands, rates.input_bytes, rates.output_bytes) == (0, 0, 0)

    rates.measure(12.0, 300, Stats(input_bytes=5_000, output_bytes=50))

    assert (rates.commands, rates.input_bytes, rates.output_bytes) == (100, 2_000, 0)


def test_counts_that_began_anew_are_counted_from_0() -> None:
    rates = Rates()
    rates.measure(10.0, 100, Stats(input_bytes=1_000))

    rates.measure(11.0, 3, Stats(input_bytes=20))

    assert (rates.commands, rates.input_bytes) == (3, 20)
