"""The docstrings of the stubs are those of the native classes, which come from the comments of the Rust code; and the parameters of
control calls are those of the protocol's declarations.

`TIDEGATE_WRITE_STUBS=1` writes the docstrings into the stubs.
"""

from __future__ import annotations

import ast
import inspect
import os
import pathlib
import re
import textwrap

import pytest
from tidegate import _tidegate, control

STUBS = pathlib.Path(__file__).parents[1] / "python/tidegate/_tidegate.pyi"
CALLS = pathlib.Path(__file__).parents[3] / "crates/control/src/calls"


def native(owner: object, node: ast.AST) -> str | None:
    """The docstring of what a node of the stubs declares; `None` for special methods, which have none."""
    name = getattr(node, "name", "")
    found = getattr(owner, name, None)
    if found is None or (name.startswith("__") and name.endswith("__")):
        return None
    return inspect.cleandoc(found.__doc__ or "").strip() or None


def declared() -> list[tuple[str, object, ast.AST]]:
    """Each class and function of the stubs, with its owner in the native module."""
    found: list[tuple[str, object, ast.AST]] = []
    for node in ast.parse(STUBS.read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.append((node.name, _tidegate, node))
        if isinstance(node, ast.ClassDef):
            of_class = getattr(_tidegate, node.name)
            setters = {m.name for m in node.body if isinstance(m, ast.FunctionDef) and any(isinstance(d, ast.Attribute) for d in m.decorator_list)}
            seen: set[str] = set()
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not (member.name in setters and member.name in seen):
                    seen.add(member.name)
                    found.append((f"{node.name}.{member.name}", of_class, member))
    return found


def write() -> None:
    """Writes the docstrings of the native module into the stubs."""
    lines = STUBS.read_text().split("\n")
    for _, owner, node in sorted(declared(), key=lambda entry: -entry[2].lineno):
        text = native(owner, node)
        first = node.body[0]
        is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        is_placeholder = is_docstring and first.value.value is Ellipsis
        if is_docstring and not is_placeholder:
            del lines[first.lineno - 1 : first.end_lineno]
            if len(node.body) == 1 and text is None:
                lines[first.lineno - 2] += " ..."
        if text is None:
            continue
        indent = " " * (node.col_offset + 4)
        wrapped = text.split("\n")
        wrapped[0] = '"""' + wrapped[0]
        wrapped[-1] += '"""' if len(wrapped) == 1 or not wrapped[-1].endswith('"') else ' """'
        new = [indent + line if line else "" for line in wrapped]
        if isinstance(node, ast.ClassDef):
            at = node.lineno
        else:
            at = first.lineno - 1 if not is_placeholder else first.lineno - 1
            if is_placeholder:
                line = lines[first.lineno - 1]
                if line.rstrip().endswith("...") and line.strip() != "...":
                    lines[first.lineno - 1] = line.rstrip()[:-3].rstrip()
                    at = first.lineno
                else:
                    del lines[first.lineno - 1]
        if isinstance(node, ast.ClassDef) and not is_docstring and not is_placeholder and new[-1]:
            new.append("")
        lines[at:at] = new
    STUBS.write_text("\n".join(lines))


def test_docstrings_are_those_of_the_native_module():
    if os.environ.get("TIDEGATE_WRITE_STUBS"):
        write()
    wrong = []
    for name, owner, node in declared():
        text = native(owner, node)
        found = ast.get_docstring(node)
        if (text or "") != (found or "") and text is not None:
            wrong.append(f"{name}:\n--- stubs\n{found}\n--- native\n{text}")
    assert not wrong, "\n".join(wrong) + "\nTIDEGATE_WRITE_STUBS=1 writes them"
    assert sum(native(owner, node) is not None for _, owner, node in declared()) > 60


def test_every_public_name_of_the_native_module_has_a_stub():
    named = {name.partition(".")[0] for name, _, _ in declared()}
    native_names = {name for name in dir(_tidegate) if not name.startswith("__")}
    assert native_names <= named, native_names - named


def requests() -> dict[str, list[str]]:
    """The keys of each call of the protocol, from its declaration in Rust."""
    text = "\n".join(path.read_text() for path in sorted(CALLS.glob("*.rs")))
    structs = {}
    for name, body in re.findall(r"pub struct (\w+) \{(\}|.*?\n\})", text, re.DOTALL):
        keys = []
        for attributes, field in re.findall(r"((?:\s*#\[[^\n]*\]\n)*)\s*pub (\w+):", body):
            renamed = re.search(r'rename = "(\w+)"', attributes)
            keys.append(renamed[1] if renamed else field)
        structs[name] = keys
    calls = re.findall(r'\n    (\w+) "([\w-]+)" \((\w+)\) ->', (CALLS / "declaration.rs").read_text())
    return {method: structs.get(request, []) for method, _, request in calls}


CALL_KEYS = requests()


@pytest.mark.parametrize("call", sorted(set(CALL_KEYS) - {"unsubscribe"}))
def test_control_calls_have_the_parameters_of_the_protocol(call):
    for connection in (control.Connection, control.AsyncConnection):
        found = [name.rstrip("_") for name in inspect.signature(getattr(connection, call)).parameters if name != "self"]
        assert sorted(found) == sorted(CALL_KEYS[call]), call


def test_targets_have_the_keys_of_the_protocol():
    text = (CALLS / "promise.rs").read_text()
    for name, typed in (("Target", control.Target), ("Displacement", control.Displacement)):
        body = re.search(rf"pub struct {name} \{{(.*?)\n\}}", text, re.DOTALL)[1]
        fields = re.findall(r'(?:rename = "(\w+)"[^\n]*\n\s*)?pub (\w+):', body)
        assert sorted(typed.__annotations__) == sorted(renamed or field for renamed, field in fields)
