"""The exceptions of the package."""

from __future__ import annotations


class TidegateError(Exception):
    """What every exception of the package is."""


class ConfigError(TidegateError, ValueError):
    """A scenario, a shaper file or an action is wrong.

    The text shows each place with a mark and the way out, as the command does. ``findings`` has the errors as
    dictionaries: ``file``, ``line`` and ``column`` (from 1), ``message``, ``label`` and ``help`` (each may be ``None``).
    """

    def __init__(self, text: str, findings: list[dict[str, object]] | None = None) -> None:
        super().__init__(text, findings or [])
        self.findings = findings or []

    def __str__(self) -> str:
        return str(self.args[0])


class InternalError(TidegateError, RuntimeError):
    """A defect of Tidegate: Rust code panicked. The interpreter goes on."""
