"""Self-contained HTML reports of a release."""

from privpac.report.html import report_html, write_report

__all__ = ["report_html", "write_report"]
