"""The ``privpac`` command."""
