"""The notebooks, run by Jupyter in a kernel of their own, and the example."""

from __future__ import annotations

import os
import pathlib
import runpy

import pytest

HERE = pathlib.Path(__file__).parents[1]

#: Whether a notebook shows a figure.
FIGURES = {"rfc2963": True, "new-aqm": True, "dask": False}


@pytest.mark.long(120)
@pytest.mark.parametrize("name", FIGURES)
def test_a_notebook_runs(name):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    if name == "dask":
        pytest.importorskip("distributed")
    notebook = nbformat.read(HERE / f"notebooks/{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=600, startup_timeout=300, resources={"metadata": {"path": str(HERE / "notebooks")}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.output_type == "stream" and output.name == "stdout" for output in outputs)
    shown = [output.data for output in outputs if output.output_type in ("display_data", "execute_result")]
    figures = [data["text/html"] for data in shown if "<svg" in data.get("text/html", "")]
    assert bool(figures) == FIGURES[name]
    assert all('src="http' not in figure and 'href="http' not in figure for figure in figures)


def test_the_example_learns():
    pytest.importorskip("gymnasium")
    os.environ["TIDEGATE_EXAMPLE_TRIES"] = "12"
    found = runpy.run_path(str(HERE / "examples/learned_aqm.py"), run_name="example")["main"]()
    assert found["learned"][0] > found["first try"][0]
