"""The chapter of the book and the lines of the README."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [ROOT / "book/src/python.md", ROOT / "lab/python/README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)
    assert (tmp_path / "delay.svg").read_text().startswith("<svg")
    if page.name == "python.md":
        assert "law 6" in printed.getvalue() and "help:" in printed.getvalue()


def test_the_page_of_the_package_is_that_of_its_stubs():
    done = subprocess.run([sys.executable, ROOT / "lab/python/pages", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
