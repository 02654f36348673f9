"""Protocols: manifests, wire format, devices, shuffler and analyzers for data that stay with the people.

Names are resolved on first use: a device that imports ``privpac.protocols.client`` needs the standard library and numpy
only.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
