"""Figures in every format and look, tables for papers, and scenarios that begin with a file."""

from __future__ import annotations

import pytest
import tidegate

TEXT = """version = 1
duration = "3s"
runs = 2
hosts = ["a", "b"]
link = [{ from = "a", to = "b", rate = "8mbit", delay = "5ms", watch = true }]
flow = [{ name = "bulk", from = "a", to = "b", jitter = "1s", workload = { kind = "bulk" } }]
variant = [
  { name = "fifo", from = "a", to = "b", queue = { kind = "fifo", packets = 50 } },
  { name = "codel", from = "a", to = "b", queue = { kind = "codel" } },
]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenarios") / "two.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def results(file):
    return tidegate.simulate(file)


def test_the_ending_of_the_name_chooses_the_format(results, tmp_path):
    figure = results.figure("queueing delay, link a->b", look="column")
    begins = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG", "pgf": b"% \\input", "tikz": b"% \\input"}
    for ending, begin in begins.items():
        path = tmp_path / f"figure.{ending}"
        figure.save(path)
        assert path.read_bytes().startswith(begin), ending
    with pytest.raises(ValueError, match=r"\.svg, \.pdf, \.png, \.pgf or \.tikz"):
        figure.save(tmp_path / "figure.eps")


def test_looks_have_their_size_rows_and_order(results):
    svg = results.figure(look="column").svg
    assert 'width="251.06pt"' in svg and ">fifo<" in svg
    svg = results.figure(look="text", height=100, rows=["codel"], measures=["goodput"], heading="Mine").svg
    assert 'width="514.07pt"' in svg and ">Mine<" in svg and ">fifo<" not in svg
    plot = results.figure("queueing delay, link", look="column", rows=["codel", "fifo"], grey=True, type_size=7, width=200).svg
    assert plot.index(">codel<") < plot.index(">fifo<") and "#0072b2" not in plot
    assert "Bands:" in plot
    assert "Bands:" not in results.figure("queueing delay, link", bands=False).svg
    ccdf = results.figure("delay, distribution", form="ccdf").svg
    assert "share of the values above (logarithmic)" in ccdf
    for wrong in ({"look": "poster"}, {"width": 5}, {"rows": ["pie"]}, {"form": "pie"}):
        with pytest.raises(ValueError):
            results.figure(**wrong)


def test_plots_are_laid_over_each_other_in_a_range(results):
    svg = results.figure("throughput", look="column", overlay=True, from_="1s", to="2s").svg
    assert ">fifo<" in svg and ">codel<" in svg and ">3<" not in svg
    with pytest.raises(ValueError, match="from= must be less than to="):
        results.figure("throughput", from_="2s", to="1s")
    lines = {"x": "x", "by": ["variant", "subject"], "only": {"measure": "queueing", "kind": "series"}}
    assert ">codel: link a-&gt;b<" in tidegate.figure(results.table, "lines", **lines).svg


def test_what_is_stated_is_chosen_or_named_before_the_runs(file, results):
    # The seeds do not change the difference of its goodput, which has no test.
    quantity = "loss of flow bulk"

    def comparisons(table):
        return {n for n in table.to_dict()["comparisons"] if n is not None}

    assert comparisons(results.differences_of(compare=[quantity])) == {1}
    assert comparisons(results.differences_of(compare=["goodput of flow bulk"])) == set()
    assert comparisons(results.differences_of(measures=["loss"])) == {1} < comparisons(results.differences) | {1}
    # One that means nothing is refused before any run, as by the command.
    with pytest.raises(tidegate.ConfigError, match="no subject is meant by `flow bulks`. Did you mean `flow bulk`"):
        tidegate.Scenario(file, primary=["goodput of flow bulks"]).check()
    primary = tidegate.simulate(tidegate.Scenario(file, primary=[quantity]))
    assert comparisons(primary.differences) == {1}
    assert primary.to_latex() == results.to_latex(compare=[quantity])
    assert "loss" in results.figure(compare=[quantity], look="column").svg


def test_tables_for_papers(results):
    latex = results.to_latex(measures=["goodput"])
    assert latex.count("\\\\") == 4 and "\\toprule" in latex and "Mbit/s" in latex
    assert "\\fontsize{8}" in results.to_latex(look="column") and results.to_latex() == results.to_latex(look="page")
    # Flows and links have different measures, and a table each.
    tables = results.to_markdown(rows=["codel"]).split("\n\n")
    kinds = [table.splitlines()[2].split()[1] for table in tables[:2]]
    assert kinds == ["bulk", "link"]


def test_figures_of_tables(results):
    values = results.values
    box = tidegate.figure(values, "strip", by="variant", only={"measure": "goodput"}, look="column")
    assert ">codel<" in box.svg
    heat = tidegate.figure(values, "heat", x="variant", y="subject", only={"measure": "goodput"}, look="column")
    assert "value by variant and subject" in heat.svg
    with pytest.raises(ValueError, match="no column `speed`"):
        tidegate.figure(values, "heat", x="speed", y="subject")


def test_a_scenario_begins_with_a_file(file, results):
    scenario = tidegate.Scenario(file)
    assert tidegate.simulate(scenario).digest == results.digest
    longer = tidegate.Scenario(str(file), duration="4s", hosts=["c"])
    longer.link("a", "c", rate="1mbit")
    assert longer.check().duration_ns == 4_000_000_000 and longer.to_dict()["hosts"] == ["a", "b", "c"]
    assert scenario.to_dict()["duration"] == "3s", "the first is another"
    loaded = tidegate.load(file).to_dict()
    assert loaded["link"][0]["rate"] == "8mbit"
    loaded["runs"] = 1
    assert len(tidegate.simulate(loaded)) == 1
    with pytest.raises(tidegate.ConfigError):
        tidegate.Scenario({"version": 1, "duration": "x"})


def test_pandas_takes_a_table(results):
    pandas = pytest.importorskip("pandas")
    table = results.values
    frame = pandas.DataFrame(table)
    assert list(frame.columns) == table.column_names and len(frame) == len(table)
    assert frame["value"].tolist() == table["value"] and frame["seed"].dtype.kind in "iu"
    same = table.to_pandas()
    assert same["subject"].tolist() == frame["subject"].tolist()
    assert next(iter(table))["measure"] == table["measure"][0]
