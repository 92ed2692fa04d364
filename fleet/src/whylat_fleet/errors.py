"""Errors that a person can do something about."""


class FleetError(Exception):
    """Reports what failed, on what and why; `hint` is the next step."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UnwatchedError(FleetError):
    """A window that no agent watched: another window may work."""


class UsageError(FleetError):
    """Arguments that make no sense: exit code 2."""
