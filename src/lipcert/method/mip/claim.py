"""What a mixed-integer solver says about the optimum: a claim, kept apart from everything that is proved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Claim:
    """The solver's best value and its bound on all others (inf: none), within its tolerances; not certified."""

    value: float
    bound: float
    solver: str
    status: str
    nodes: int
    seconds: float

    def __str__(self) -> str:
        value = f"{self.value:.7g}" if math.isfinite(self.value) else "nothing found"
        bound = "no bound" if math.isinf(self.bound) else f"nothing above {self.bound:.7g}"
        return f"{value}, {bound}, says {self.solver} ({self.status}); not certified"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite is null."""
        return {
            "value": self.value if math.isfinite(self.value) else None,
            "bound": self.bound if math.isfinite(self.bound) else None,
            "solver": self.solver,
            "status": self.status,
            "nodes": self.nodes,
            "seconds": round(self.seconds, 4),
        }
