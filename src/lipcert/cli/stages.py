"""The progress of work in stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipcert.cli.live import LiveLine

if TYPE_CHECKING:
    from lipcert.jobs import Progress


class StageDisplay(LiveLine):
    """Shows the time, the stage and how far its pieces are."""

    def __init__(self) -> None:
        super().__init__()
        self._stage = "starting"

    def update(self, stage: str, progress: Progress | None) -> None:
        self._stage = stage if progress is None else f"{stage}: {progress}"

    def line(self) -> str:
        return f"{self.seconds:6.1f} s   {self._stage}"
