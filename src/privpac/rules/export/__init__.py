"""Rules as text for other systems: SQL, Python and JavaScript.

A rule says what it says as an expression over codes (:mod:`privpac.rules.export.expression`), a writer knows one
language (:mod:`privpac.rules.export.writer`), and neither knows the other.
"""
