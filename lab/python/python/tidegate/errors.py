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


class ControlError(TidegateError):
    """The shaper refused a call, or cannot be reached. ``code`` is for programs: one of :class:`tidegate.protocol.Code`, or one
    of a newer shaper; ``message`` says what is wrong, and ``help`` what would work, where it is known."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(f"{message}; {help}" if help else message)
        self.code = code
        self.message = message
        self.help = help


class InternalError(TidegateError, RuntimeError):
    """A defect of Tidegate: Rust code panicked. The interpreter goes on."""
