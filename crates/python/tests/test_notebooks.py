"""The notebooks, cell by cell, and the example."""

from __future__ import annotations

import json
import os
import pathlib
import runpy

import pytest

HERE = pathlib.Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["rfc2963", "new-aqm", "dask"])
def test_a_notebook_runs(name, monkeypatch):
    if name == "dask":
        pytest.importorskip("distributed")
    monkeypatch.setenv("TIDEGATE_ROOT", str(HERE.parents[1]))
    cells = json.loads((HERE / f"notebooks/{name}.ipynb").read_text())["cells"]
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}.ipynb, cell {number}", "exec"), names)


def test_the_example_learns():
    pytest.importorskip("gymnasium")
    os.environ["TIDEGATE_EXAMPLE_TRIES"] = "12"
    found = runpy.run_path(str(HERE / "examples/learned_aqm.py"), run_name="example")["main"]()
    assert found["learned"][0] > found["first try"][0]
