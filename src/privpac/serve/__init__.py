"""The prediction service: a session file, a ledger, API keys and a small web application (extra ``[serve]``)."""
