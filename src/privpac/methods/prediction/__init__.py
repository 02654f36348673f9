"""Answers without a rule: private voters and sessions."""
