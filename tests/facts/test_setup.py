"""Facts about the set-up: tests have the programs that they need; none is skipped without one."""

from __future__ import annotations

import ast
import re
import runpy

from tests.facts.repository import ROOT, modules, name

# Skips that depend on the Python or the build that runs the tests, not on the machine.
ALLOWED = {
    "'_testcapi'",
    "sys.version_info[:3] == (3, 13, 0)",
    "not str(journal.__file__).endswith('.py')",
    "not str(records.__file__).endswith('.py')",
}


def test_no_test_is_skipped_because_a_program_is_missing() -> None:
    found = {
        ast.unparse(call.args[0]) if call.args else "": path
        for path, tree in modules(ROOT / "tests")
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _called(call) in ("skip", "skipif", "importorskip")
    }

    assert {path: reason for reason, path in found.items() if reason not in ALLOWED} == {}


def test_the_programs_that_tests_need_are_installed_and_listed() -> None:
    script = (ROOT / "tools" / "setup").read_text(encoding="utf-8")
    [rows] = re.findall(r"for row in (.*?); do", script, re.DOTALL)
    installed = set(re.findall(r"([\w-]+):[\w-]+", rows))
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"It also needs (.*?)\.", page, re.DOTALL)

    assert set(re.findall(r"`([^`]+)`", listed)) == installed
    for program in ("strace", "faketime", "systemd-analyze"):
        assert program in installed, name(ROOT / "tools" / "setup")


def test_the_line_of_progress_shows_steps_and_no_warnings() -> None:
    """pip warns of the settings of the machine while it works."""
    progress = runpy.run_path(str(ROOT / "tools" / "progress"))

    assert progress["last_step"](["Collecting click\n", "WARNING: slow\n"]) == "Collecting click"
    assert progress["last_step"](["  DEPRECATION: old\n"]) == "starting"


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
