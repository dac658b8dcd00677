"""One Spark session for all tests of this folder, and what they need besides.

Starting Spark takes some ten seconds, so it is started once, by the first test that asks for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark import fork_server, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Spark and its libraries warn of is theirs; what a test does wrong still fails it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            for kind in (DeprecationWarning, FutureWarning, ResourceWarning, UserWarning):
                item.add_marker(
                    pytest.mark.filterwarnings(f"ignore::{kind.__name__}"), append=False
                )
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads of this machine, which tries a failed task once more."""
    from quinque.spark.session import build_session

    folder = tmp_path_factory.mktemp("spark")
    with fork_server.started() as python, pytest.MonkeyPatch.context() as patch:
        pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
        for name, value in (quick.VARIABLES | pythons).items():
            patch.setenv(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = build_session(
                "quinque tests",
                master="local[2,2]",
                settings=quick.SETTINGS
                | {
                    "spark.sql.warehouse.dir": str(folder / "warehouse"),
                    "spark.local.dir": str(folder / "local"),
                    "spark.driver.memory": "1g",
                    "spark.driver.extraJavaOptions": (
                        f"-Dderby.system.home={folder} {quick.JAVA_WORDS}"
                    ),
                },
                log_level="ERROR",
            )
        yield session
        session.stop()
