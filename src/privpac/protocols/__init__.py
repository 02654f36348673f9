"""Protocols: manifests, wire format, devices, shuffler and analyzers for data that stay with the people.

Names are resolved on first use: a device that imports ``privpac.protocols.client`` needs the standard library and numpy
only.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
