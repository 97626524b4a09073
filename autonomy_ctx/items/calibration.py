"""What providers report, turned into a correction that moves seldom and in recorded steps.

A correction that changed a little on every turn would move budgets, and so cuts, on every turn,
and break the provider's prompt cache. So reports are averaged, and the factor in use changes only
when the average has left it clearly behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.errors import InvalidMessage

WEIGHT = 0.2
STEP = 0.05
LOWEST, HIGHEST = 0.25, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStep:
    """The factor in use from a report on."""

    factor: float
    reports: int


class Calibration:
    """The factor between counted and reported tokens, and every step it took."""

    def __init__(self) -> None:
        self.steps: list[CalibrationStep] = [CalibrationStep(factor=1.0, reports=0)]
        self._average = 1.0
        self._reports = 0

    @property
    def factor(self) -> float:
        """The factor in use."""
        return self.steps[-1].factor

    def scaled(self, tokens: int) -> int:
        """A count, corrected."""
        factor = self.steps[-1].factor
        return tokens if factor == 1.0 else math.ceil(tokens * factor)

    def observe(self, counted: int, reported: int) -> bool:
        """Take in one report; true when the factor moved. Reports of nothing are ignored."""
        if counted <= 0 or reported <= 0:
            return False
        ratio = min(max(reported / counted, LOWEST), HIGHEST)
        self._reports += 1
        weight = max(WEIGHT, 1 / self._reports)
        self._average += weight * (ratio - self._average)
        if abs(self._average / self.factor - 1) <= STEP:
            return False
        self.steps.append(CalibrationStep(factor=round(self._average, 3), reports=self._reports))
        return True

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON, to keep it across a restart."""
        return {
            "average": self._average,
            "reports": self._reports,
            "steps": [{"factor": step.factor, "reports": step.reports} for step in self.steps],
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Calibration:
        """The state that `to_dict` gave."""
        calibration = cls()
        try:
            calibration._average = float(value["average"])
            calibration._reports = int(value["reports"])
            calibration.steps = [
                CalibrationStep(factor=float(step["factor"]), reports=int(step["reports"]))
                for step in value["steps"]
            ]
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidMessage(
                "calibration", f"is not what Calibration.to_dict gave ({problem!r})"
            ) from None
        if not calibration.steps or not all(LOWEST <= step.factor <= HIGHEST for step in calibration.steps):
            raise InvalidMessage("calibration.steps", f"must have factors between {LOWEST} and {HIGHEST}")
        return calibration
