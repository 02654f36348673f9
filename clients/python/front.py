"""Takes part in a privpac protocol from a device: the standard library and ``cryptography``, nothing else.

    privpac-client device STORE --person ann --epsilon 1 --coordinator-key coordinator.pub
    privpac-client send run.json mine.csv message.bin --store STORE

The modules are those of ``privpac`` itself, under this name; ``docs/wire.md`` there is what they do.
"""

from privpac_client.device.client import Client, read_records
from privpac_client.device.keys import CoordinatorKey, fingerprint
from privpac_client.device.manifest import Manifest, told
from privpac_client.device.store import Device
from privpac_client.device.submit import submit
from privpac_client.device.wire import bundle
from privpac_client.errors import BudgetExhausted, ManifestError, ParameterError, PrivpacError

__all__ = [
    "BudgetExhausted",
    "Client",
    "CoordinatorKey",
    "Device",
    "Manifest",
    "ManifestError",
    "ParameterError",
    "PrivpacError",
    "bundle",
    "fingerprint",
    "read_records",
    "submit",
    "told",
]
