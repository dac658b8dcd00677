"""How drivers come to be known: by a program, by a setting, by an installed package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from quinque.drivers import Driver, Drivers, Space
from quinque.drivers.registry import METHODS
from quinque.errors import BadDriver
from tests.drivers.odd_drivers import Deaf

EXAMPLE = Path(__file__).parents[2] / "examples" / "drivers" / "unique"


def test_a_driver_is_known_by_its_name() -> None:
    drivers = Drivers()
    drivers.register("mine", Driver)
    drivers.register("a", Driver)

    assert drivers.get(b"mine") is Driver
    assert drivers.get(b"yours") is None
    assert drivers.names() == [b"a", b"mine"]


@pytest.mark.parametrize("name", ["fifo", "utubettl", "mine"])
def test_no_name_is_given_twice(name: str) -> None:
    drivers = Drivers()
    drivers.register("mine", Driver)

    with pytest.raises(BadDriver, match=f'^overriding registered driver "{name}"$'):
        drivers.register(name, Driver)


@pytest.mark.parametrize("missing", ["create_space", "new"])
def test_a_driver_without_what_makes_it_is_refused(missing: str) -> None:
    class Bare:
        create_space = Driver.create_space
        new = Driver.new

    setattr(Bare, missing, None)

    with pytest.raises(
        BadDriver, match='tube control methods must contain functions "create_space" and "new"'
    ):
        Drivers().register("bare", Bare)


@pytest.mark.parametrize("missing", METHODS)
def test_a_driver_that_lacks_a_method_is_refused_by_its_name(missing: str) -> None:
    lacking: Any = type("Lacking", (Driver,), {missing: None})

    with pytest.raises(
        BadDriver,
        match=f'^The "lacking" driver does not have an implementation of method "{missing}".$',
    ):
        Drivers().register("lacking", lacking)


def test_a_driver_need_not_be_made_from_ours() -> None:
    methods: dict[str, Any] = {name: getattr(Driver, name) for name in METHODS}
    own: Any = type("Own", (Deaf,), methods)

    Drivers().register("own", own)

    assert isinstance(own.create_space("s", {}), Space)


def test_a_setting_names_the_module_and_the_class() -> None:
    drivers = Drivers()

    drivers.register_text("plain=quinque.drivers:Driver")

    assert drivers.get(b"plain") is Driver


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plain", "'plain' is not name=module:Class"),
        ("plain=quinque.drivers", "is not name=module:Class"),
        ("=quinque.drivers:Driver", "is not name=module:Class"),
        ("x=no_such_module:Driver", "cannot import driver .*: ModuleNotFoundError"),
        ("x=quinque.drivers:NoSuchClass", "cannot import driver .*: AttributeError"),
        ("x=quinque.drivers:EVENTS", "tube control methods must contain"),
        ("x=tests.drivers.odd_drivers:Deaf", 'implementation of method "normalize_task"'),
        ("fifo=quinque.drivers:Driver", "overriding registered driver"),
    ],
)
def test_a_setting_that_names_no_driver_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadDriver, match=why):
        Drivers().register_text(text)


def test_installed_packages_bring_their_drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _install(tmp_path, "unique = quinque_unique:Unique", "broken = no_such_module:Nothing")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    drivers = Drivers()
    drivers.register_text("unique=quinque_unique:Unique")  # the same, so it is in nobody's way

    drivers.register_installed()

    found: Any = drivers.get(b"unique")
    assert found is sys.modules["quinque_unique"].Unique
    assert drivers.get(b"broken") is None
    assert 'cannot import driver "broken" (no_such_module:Nothing)' in caplog.text
    assert "unique" not in caplog.text


def _install(folder: Path, *points: str) -> None:
    """What pip leaves of a package with these entry points."""
    info = folder / "brings_drivers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brings-drivers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[quinque.drivers]\n" + "\n".join(points) + "\n")
