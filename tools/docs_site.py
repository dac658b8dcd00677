#!/usr/bin/env python
"""Build the documentation as a site, from the same files: `make docs`.

    tools/docs_site.py           writes build/site/html; open its index.html
    tools/docs_site.py --pages   writes only what mkdocs reads, into build/site

The pages and the files that they link to are copied into build/site/pages, at the same paths as in
the repository, so that links between them work in both. The navigation is read from the lists of
docs/README.md. The pages of the API reference exist only on the site: mkdocstrings makes them from
docstrings. tests/facts/test_docs_site.py checks in seconds what a strict build would refuse.

Called by   the Makefile.
Not here    how the site looks: site.yml.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
INDEX: Final = ROOT / "docs" / "README.md"
BUILT: Final = ROOT / "build" / "site"

# The packages that programs use: the page of the site, its title and its public modules.
API: Final = {
    "docs/api/client.md": (
        "API of the Python client",
        ("quinque", "quinque.aio", "quinque.claims", "quinque.tracing"),
    ),
    "docs/api/worker.md": ("API of the worker", ("quinque.worker",)),
    "docs/api/workqueue.md": (
        "API of the work-queue library",
        ("quinque.workqueue", "quinque.workqueue.aio"),
    ),
    "docs/api/errors.md": ("API of the errors", ("quinque.errors",)),
}

NO_PAGE: Final = {"__version__", "BY_CODE"}

_ENTRY: Final = re.compile(
    r"^(?:-|\d+\.) \[(?P<title>[^\]]+)\]\((?P<target>[^)#]+)\)", re.MULTILINE
)
_LINK: Final = re.compile(r"(\[[^\]]*\]\()(?!https?:|mailto:)([^)#\s]+)")
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CELL: Final = re.compile(r"^\|.*\|$", re.MULTILINE)


def pages() -> list[Path]:
    """Return each page of the repository."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def navigation() -> list[dict[str, Any]]:
    """Return the navigation: each group of docs/README.md with its pages, in its order."""
    text = INDEX.read_text(encoding="utf-8")
    groups: list[dict[str, Any]] = [{"Home": ["README.md", {"All pages": _path(INDEX)}]}]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        entries: list[Any] = []
        for part in re.split(r"^(?=[A-Z][^\n]*:$)", body, flags=re.MULTILINE):
            listed = list(_listed(INDEX, part))
            heading = re.match(r"[A-Z][^\n]*(?=:\n)", part)
            entries.extend([{heading[0]: listed}] if heading and listed else listed)
        groups.append({title: entries})
    [reference] = [group["Reference"] for group in groups if "Reference" in group]
    reference.append({"API": [{title: page} for page, (title, _) in API.items()]})
    return groups


def linked_files() -> set[Path]:
    """Return the files of the repository that pages link to, and those of linked folders."""
    found: set[Path] = set()
    for page in pages():
        for _, target in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
            path = (page.parent / target).resolve()
            found.update(_files_of(path) if path.is_dir() else [path])
    return found.difference(pages())


def lay_out(folder: Path) -> None:
    """Write all that mkdocs reads into `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        _write(folder / "pages" / _path(page), _for_the_site(page))
    for file in linked_files():
        copied = folder / "pages" / _path(file)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)
    for directory in _linked_folders():
        listed = "".join(f"- [{path.name}]({path.name})\n" for path in _files_of(directory))
        _write(folder / "pages" / _path(directory) / "files.md", f"# {directory.name}\n\n{listed}")
    for page_name, (title, modules) in API.items():
        _write(folder / "pages" / page_name, _api_page(title, modules))
    script = folder / "pages" / "assets" / "iframe-worker.js"
    script.parent.mkdir()
    shutil.copyfile(ROOT / "tools" / "site_search.js", script)
    settings = {
        "INHERIT": str(ROOT / "tools" / "site.yml"),
        "docs_dir": str(folder / "pages"),
        "site_dir": str(folder / "html"),
        "nav": navigation(),
        "plugins": {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT / "src")]}}}},
        "not_in_nav": "/examples/",
    }
    _write(folder / "mkdocs.yml", json.dumps(settings, indent=2))


def public_names(module: str) -> list[str]:
    """Return `__all__` of a module without its version, or else its public classes."""
    path = ROOT / "src" / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if name not in NO_PAGE]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [name for name in classes if not name.startswith("_")]


def main() -> None:
    lay_out(BUILT)
    if "--pages" in sys.argv:
        return
    build = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet hides warnings from it
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement
    done = subprocess.run([*build, "--config-file", BUILT / "mkdocs.yml"], env=variables)
    if done.returncode:
        raise SystemExit(done.returncode)
    if loaded := sorted(_loaded_from_elsewhere(BUILT / "html")):
        raise SystemExit(f"the site must work offline, but its pages load {', '.join(loaded)}")
    print(f"open {(BUILT / 'html' / 'index.html').relative_to(ROOT)}")  # noqa: T201


def _listed(page: Path, text: str) -> Iterator[dict[str, Any]]:
    """The entries of a list of links; an index of its own folder brings its own list."""
    for entry in _ENTRY.finditer(text):
        target = (page.parent / entry["target"]).resolve()
        own = target.name == "README.md" and list(_listed(target, target.read_text("utf-8")))
        inside = [it for it in own or () if next(iter(it.values())).endswith(".md")]
        yield {entry["title"]: [_path(target), *inside] if inside else _path(target)}


def _for_the_site(page: Path) -> str:
    """The text of a page, where Python's Markdown reads something else than that of GitHub."""

    def to_files(found: re.Match[str]) -> str:
        is_folder = (page.parent / found[2]).resolve().is_dir()
        return f"{found[1]}{found[2].rstrip('/')}/files.md" if is_folder else found[0]

    def unescaped(found: re.Match[str]) -> str:
        """In a table, `a\\|b` is `a|b` for GitHub only; elsewhere it has no backslash."""
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), found[0])

    text = page.read_text(encoding="utf-8")
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.startswith("```") else _CELL.sub(unescaped, _LINK.sub(to_files, part))
        for part in parts
    )


def _api_page(title: str, modules: tuple[str, ...]) -> str:
    parts = [f"# {title}\n"]
    for module in modules:
        parts.append(f"\n## {module}\n" if len(modules) > 1 else "")
        parts += [
            f"\n::: {module}.{name}\n    options:\n      heading_level: {2 + (len(modules) > 1)}\n"
            for name in public_names(module)
        ]
    return "".join(parts)


def _linked_folders() -> set[Path]:
    return {
        path
        for page in pages()
        for _, target in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
        if (path := (page.parent / target).resolve()).is_dir()
    }


def _files_of(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")
    )


def _loaded_from_elsewhere(html: Path) -> Iterator[str]:
    """Scripts, styles and pictures of other hosts."""
    loading = re.compile(
        r'<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="?((?:https?:)?//[^" >]+)'
    )
    for page in html.rglob("*.html"):
        yield from loading.findall(page.read_text(encoding="utf-8"))


def _path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
