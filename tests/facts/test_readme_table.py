"""The README's table of speeds is made from bench/results.json, by python -m bench --readme."""

from __future__ import annotations

import json

from bench.summary import (
    BEGIN,
    BUILDS,
    END,
    README,
    RESULTS,
    SPARKS,
    TARANTOOLS,
    TARGETS,
    readme_block,
)


def test_the_table_is_what_the_saved_results_give() -> None:
    text = README.read_text(encoding="utf-8")
    block = text.partition(BEGIN)[2].partition(END)[0]

    assert block == readme_block(json.loads(RESULTS.read_text(encoding="utf-8")))


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
