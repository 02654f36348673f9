"""``privpac studio``: one local page to work on, for people who do not program.

Read first: :mod:`privpac.studio.guard` (who may come in), then :mod:`privpac.studio.desk` (what can be done).  May use
the whole house; nothing uses it but the command line.  Before a release the page shows names, types and declared facts
of a table and nothing else of it; whatever learns or measures is the command that the page shows, run as such.
"""
