"""Figures for a paper: matplotlib, one style, one column wide; dashes, markers and hatches carry them in grey."""

from afbs.report.figures.files import FORMATS, figures

__all__ = ["FORMATS", "figures"]
