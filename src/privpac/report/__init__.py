"""Self-contained HTML reports of a release."""

from privpac.report.html import plan_for_report, report_html, write_report

__all__ = ["plan_for_report", "report_html", "write_report"]
