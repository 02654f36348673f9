"""Imports every module that adds a command."""

import privpac.cli.audit
import privpac.cli.bounds
import privpac.cli.compare
import privpac.cli.distribution
import privpac.cli.learn
import privpac.cli.ledger
import privpac.cli.plan
import privpac.cli.predict
import privpac.cli.protocol
import privpac.cli.serve  # noqa: F401
