"""`lipcert verify FOLDER`: a certified data set proved again, without any solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipcert.cli.live import StageDisplay
from lipcert.cli.options import ReadingOptions, gathered
from lipcert.cli.show import console, grid, print_json
from lipcert.errors import InputError

if TYPE_CHECKING:
    from lipcert.robustness.data import DataSet
    from lipcert.robustness.verify import FolderVerification

_SHOWN = 5  # failures that are printed


@dataclass(frozen=True)
class GivenData:
    """Options that replace the data set of a folder, as typed."""

    data: str | None
    labels: str | None
    label_column: str | None
    scale: str | None
    first: int | None
    workers: int

    def refuse(self) -> None:
        """Refuse these options for a single certificate, which has no data."""
        if any(value is not None for value in (self.data, self.labels, self.label_column, self.scale, self.first)):
            raise InputError(
                "--data, --labels, --label-column, --scale and --first are for a folder; a certificate has no data"
            )

    def read(self, folder: Path) -> DataSet | None:
        """Read the data set; options that were not typed are those of the job. None if no option was typed."""
        from lipcert.robustness.data import Origin  # here, so that other commands start fast
        from lipcert.robustness.stored import read_sources

        names = ("labels", "label_column", "scale", "first")
        typed = {"path": self.data} | {name: getattr(self, name) for name in names}
        changes: dict[str, Any] = {name: value for name, value in typed.items() if value is not None}
        if not changes:
            return None
        kept = read_sources(folder).data
        if kept is None and self.data is None:
            raise InputError(f"{folder}: it does not say which file the data came from; give --data")
        if self.labels is not None:  # they replace labels that the job took from a column
            changes.setdefault("label_column", None)
        return Origin(**changes).read() if kept is None else replace(kept, **changes).read()


folder_options = gathered(  # the verb receives them as one argument `given`
    GivenData,
    "given",
    data={"help": "For a FOLDER: the inputs, when they are not where they were."},
    labels={"help": "For a FOLDER: the true classes, likewise."},
    label_column={"help": "For a FOLDER: the column of a .csv with the classes, likewise."},
    scale={"help": "For a FOLDER: inputs are DATA times S. Default: as in the job."},
    first={"help": "For a FOLDER: the first N. Default: likewise."},
    workers={"help": "For a FOLDER: processes."},
)


def verify_folder_command(
    folder: str, network: str | None, given: GivenData, reading: ReadingOptions, as_json: bool
) -> int:
    """Verify a folder and print the answer; exit code 0 if every claim is proved, 1 if one is not."""
    from lipcert.robustness.stored import read_sources
    from lipcert.robustness.verify import verify_folder

    with StageDisplay() as display:
        data = given.read(Path(folder))
        where = network or read_sources(Path(folder)).network
        net = None if where is None else reading.network(where)
        answer = verify_folder(folder, net, data, workers=given.workers, on_progress=display.update)
    if as_json:
        print_json({"folder": folder, **answer.to_dict()})
    else:
        _show(answer)
    return 0 if answer.proved else 1


def _show(answer: FolderVerification) -> None:
    screen, q = console(), answer.question
    screen.print("[bold]proved[/bold]" if answer.proved else "[bold]not proved[/bold]")
    screen.print(q.sentence)
    screen.print(f"network {q.net.sha256}")
    table = grid("claims", "count", "proved", "not proved", "seconds")
    for kind in answer.kinds:
        missing = kind.count - kind.proved
        table.add_row(kind.kind, f"{kind.count:,}", f"{kind.proved:,}", f"{missing:,}", f"{kind.seconds:.2f}")
    screen.print(table)
    for line in answer.failures[:_SHOWN]:
        screen.print(f"not proved: {line}", markup=False)
    left = sum(kind.count - kind.proved for kind in answer.kinds) - _SHOWN
    if left > 0:
        screen.print(f"and {left:,} more")
    screen.print(f"{answer.seconds:.1f} s")
