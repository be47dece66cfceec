"""Status codes of the library as exceptions with the library's text."""
from __future__ import annotations


class Error(Exception):
    """Base class of all corestack errors."""


class ArgumentError(Error, ValueError):
    """An argument or option is not valid."""


class InputError(Error, ValueError):
    """The data are not usable as given."""


class FormatError(Error, ValueError):
    """A file is not in the format it claims."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""


class MismatchError(Error, ValueError):
    """Two inputs do not match."""


class LimitError(Error, ValueError):
    """A size exceeds the supported limit."""


class NumericError(Error, ArithmeticError):
    """A computation did not give a usable number."""


class CancelledError(Error, RuntimeError):
    """The progress callback asked to stop."""


class UnsupportedError(Error, NotImplementedError):
    """The request is understood but not supported."""


class InternalError(Error, RuntimeError):
    """An internal check failed."""


class ArrayTypeError(Error, TypeError):
    """An argument has a type that cannot hold predictions, labels or folds."""


_IN_ORDER: tuple[type[Error], ...] = (
    ArgumentError, InputError, FormatError, FileError, OutOfMemoryError, MismatchError, LimitError, NumericError,
    CancelledError, UnsupportedError, InternalError,
)  # fmt: skip
BY_STATUS = dict(enumerate(_IN_ORDER, 1))
