"""The tables of speeds are made from bench/results.json, by python -m bench --readme."""

from __future__ import annotations

import json

import pytest

from bench import summary
from bench.summary import BEGIN, BUILDS, END, IN_README, RESULTS, SPARKS, TARANTOOLS, TARGETS


@pytest.mark.parametrize("name", ["readme", "page"])
def test_a_table_is_what_the_saved_results_give(name: str) -> None:
    path = summary.README if name == "readme" else summary.PAGE
    made = summary.readme_block if name == "readme" else summary.page_block
    block = path.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]

    assert block == made(json.loads(RESULTS.read_text(encoding="utf-8")))


def test_the_rows_of_the_readme_are_targets() -> None:
    assert set(IN_README) <= {target.figure for target in TARGETS}


def test_the_saved_results_are_complete() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))

    wanted = {target.figure for target in TARGETS}
    of_spark = {figure for figure in wanted if figure.startswith(SPARKS)}
    of_tarantool = {figure for figure in wanted if figure.startswith(TARANTOOLS)}
    assert set(results) == set(BUILDS)
    for build in results.values():
        assert set(build["figures"]) | of_spark | of_tarantool == wanted
    # Once is enough: most of it is Spark's.
    assert of_spark <= set(results["compiled"]["figures"])
