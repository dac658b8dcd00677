"""A program that was written for the published package runs on ours when the import is changed."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import sys
from pathlib import Path
from typing import Any

import pytest
import redis_work_queue

import quinque.workqueue
from quinque.workqueue import Item, KeyPrefix, WorkQueue, aio
from tests.workqueue.stage import Place

# What newer ones have, which were not published or only as a preview.
NEWER = {
    "WorkQueue": {
        "add_new_item": ["self", "db", "item"],
        "add_unique_item": ["self", "db", "item"],
        "add_unique_item_to_pipeline": ["self", "pipeline", "item"],
        "counts": ["self", "db"],
        "deep_clean": ["self", "db"],
    }
}
OURS: dict[str, Any] = {"Item": Item, "KeyPrefix": KeyPrefix, "WorkQueue": WorkQueue}


@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")
def test_the_documented_program_sees_the_same(
    place: Place, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = prefix.replace("*?", "").replace("[", "").replace("]", "")  # they take it as a pattern
    theirs = _program().play(place.raw, name + "a")

    monkeypatch.setitem(sys.modules, "redis_work_queue", quinque.workqueue)
    ours = _program().play(place.raw, name + "a")

    assert ours == theirs
    assert len(ours) == 23


def _program() -> Any:
    """The program, imported anew."""
    path = Path(__file__).with_name("documented_program.py")
    spec = importlib.util.spec_from_file_location("documented_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", OURS)
def test_every_public_name_is_there_with_its_arguments(name: str) -> None:
    theirs = getattr(redis_work_queue, name)
    wanted = {
        method: list(inspect.signature(function).parameters)
        for method, function in inspect.getmembers(theirs, callable)
        if method in vars(theirs) and (not method.startswith("_") or method == "__init__")
    }
    wanted.update(NEWER.get(name, {}))
    assert wanted

    for method, names in wanted.items():
        signature = inspect.signature(getattr(OURS[name], method))
        parameters = list(signature.parameters.values())
        assert [parameter.name for parameter in parameters][: len(names)] == names, method
        for extra in parameters[len(names) :]:
            assert extra.default is not inspect.Parameter.empty, method


def test_both_kinds_of_queue_have_the_same_methods_with_the_same_arguments() -> None:
    for kind, twin in ((WorkQueue, aio.WorkQueue), (quinque.workqueue.DeepClean, aio.DeepClean)):
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            other = getattr(twin, method)
            assert (
                list(inspect.signature(other).parameters.values())[2:]
                == list(inspect.signature(function).parameters.values())[2:]
            ), method
            assert function.__doc__ == other.__doc__, method
