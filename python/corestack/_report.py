"""Reports: the JSON documents of docs/json.md as dicts that also know their text."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, Optional

from . import _library as c
from . import _values
from ._errors import ArgumentError
from ._session import Session
from ._types import Path


class Report(Dict[str, Any]):
    """The results of a computation, with the keys of docs/json.md. Missing numbers are None."""

    def __init__(self, document: str, text: str = "", tables: Optional[Dict[str, str]] = None) -> None:
        super().__init__(json.loads(document))
        self._document = document
        self._text = text
        self._tables = tables or {}

    def to_json(self) -> str:
        """Return the document as the command line prints it with --json."""
        return self._document

    def summary(self) -> str:
        """Return the report as the command line prints it."""
        return self._text

    def to_csv(self) -> str:
        """Return the table of a comparison, an ablation or a sweep as the command line prints it with --csv."""
        return self._table("csv")

    def to_markdown(self) -> str:
        """Return the table as the command line prints it with --markdown."""
        return self._table("markdown")

    def to_latex(self) -> str:
        """Return the tables as the command line prints them with --latex."""
        return self._table("latex")

    def _table(self, form: str) -> str:
        if form not in self._tables:
            raise ArgumentError(f"report: a report of {self.get('command', 'this kind')} has no table; use summary() or to_json()")
        return self._tables[form]

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> Any:
        now = dict(self)
        return type(self), (self._document, self._text, self._tables), None if now == json.loads(self._document) else now

    def __setstate__(self, now: Dict[str, Any]) -> None:
        """What it was changed to."""
        self.clear()
        self.update(now)


def made(s: Session, call: Callable[[Any, Any], Any], suspects: Optional[Path] = None, html: Optional[Path] = None) -> Report:
    """The report that a function of the library puts where `call` is told."""
    found = s.make_with(c.lib.cst_report_free, call)
    write_suspects(s, found, suspects)
    write_page(s, html, found)
    report = Report(*s.report(found))
    s.end_together()
    return report


def write_page(s: Session, path: Optional[Path], *reports: ctypes.c_void_p) -> None:
    """Write reports as one HTML page, where a file is named."""
    if path is not None:
        pages = (ctypes.c_void_p * len(reports))(*[one.value for one in reports])
        s.check(c.lib.cst_write_html(s.context, pages, len(pages), _values.path(path, "html")))


def write_suspects(s: Session, report: Any, path: Optional[Path]) -> None:
    """Write the rows with wrong labels that a report knows, where a file is named."""
    if path is not None:
        s.check(c.lib.cst_write_suspects(s.context, report, _values.path(path)))
