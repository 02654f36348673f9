"""Parities of many columns: solve for one instead of scoring all.

After a public random invertible change of basis of the columns, the user's records are a linear system over two
elements; the item is the solution with every free coordinate 0, written in the old basis.  Users whose records span the
same space agree; for parities of more than 22 columns, where a race would need every parity.  Inconsistent records
(noise) give no item.  Agreement needs enough records to span what the distribution spans; no more is promised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpac.device.correlated_sampling import MAX_DENOMINATOR, check_seed, integer
from privpac.device.learner import ItemUniverse, Padded
from privpac.device.records import clean
from privpac.device.rules import BitParity
from privpac.rng import PublicCoins

__all__ = ["ParitySolver", "public_basis"]


@dataclass(frozen=True)
class ParitySolver:
    """The parity of ``width`` columns with values 0 and 1 that explains all of a user's records."""

    width: int
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        integer("width", self.width, 1, 4096)
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(-(-self.width // 8))

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        basis = public_basis(check_seed(seed), self.width)
        records = clean(x, y, ((0, 1),) * self.width, limit=self.max_records)
        if len(records) < self.min_records:
            return None
        rows = [int("".join(map(str, row))[::-1], 2) for row in records.x.tolist()]
        # A parity a of the old columns is sum_i b_i basis_i; its value on x is sum_i b_i <basis_i, x>: solve for b.
        system = [
            sum(((vector & row).bit_count() & 1) << i for i, vector in enumerate(basis)) | label << self.width
            for row, label in zip(rows, records.y.tolist())
        ]
        solution = _solve(system, self.width)
        if solution is None:
            return None
        mask = 0
        for i, vector in enumerate(basis):
            if solution >> i & 1:
                mask ^= vector
        return mask.to_bytes(-(-self.width // 8), "little")

    def decode(self, item: bytes) -> BitParity | None:
        mask = int.from_bytes(item, "little")
        if len(item) != -(-self.width // 8) or mask >> self.width:
            return None
        return BitParity(mask)


def public_basis(seed: bytes, width: int) -> list[int]:
    """Linearly independent masks, drawn one after another from public coins until there are enough."""
    coins, basis = PublicCoins(seed, "basis"), list[int]()
    reduced: dict[int, int] = {}
    while len(basis) < width:
        vector = coins.bits(width)
        rest = vector
        while rest and (top := rest.bit_length()) in reduced:
            rest ^= reduced[top]
        if rest:
            reduced[rest.bit_length()] = rest
            basis.append(vector)
    return basis


def _solve(system: list[int], width: int) -> int | None:
    """The solution with free coordinates 0 (pivots from coordinate 0 up; bit ``width`` is the right side), ``None`` if
    there is none."""
    pivots: dict[int, int] = {}
    low = (1 << width) - 1
    for row in system:
        for place, other in pivots.items():
            if row >> place & 1:
                row ^= other
        left = row & low
        if not left:
            if row:
                return None
            continue
        place = (left & -left).bit_length() - 1
        for earlier, other in pivots.items():
            if other >> place & 1:
                pivots[earlier] = other ^ row
        pivots[place] = row
    return sum(1 << place for place, row in pivots.items() if row >> width & 1)
