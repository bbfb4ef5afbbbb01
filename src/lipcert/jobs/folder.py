"""The job folder: what was asked, and one small file per finished piece.

job.json             format, kind, the question, its fingerprint
lock                 the process that works here
pieces/NAME.json     the outcome of a piece: value or error, seconds, sizes of its files
pieces/NAME.<ext>    files of the answer, written before NAME.json: the record is what makes a piece done
pieces/NAME.log      the traceback of a piece that failed
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from lipcert.errors import FileFormatError, InputError
from lipcert.files import write_atomically
from lipcert.files.json_kinds import an_object, maybe, read_json, record, size, text, verbatim
from lipcert.jobs.piece import Finished, Outcome, check_extension

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
_BEFORE_THE_JOB = {"lock", "pieces"}  # left behind by a process that was killed while it made a folder
_RECORD = record(name=verbatim, value=maybe(an_object), error=maybe(text), seconds=size, files=an_object)

# Characters that stand for themselves in the name of a piece's files.
_PLAIN = re.compile(r"[a-z0-9_.-]")
# Windows reserves these names for devices, whatever the extension.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
# The most characters of a file name without its extension; a longer one ends in a hash.
_LONGEST_STEM = 120


class FolderLock:
    """A file with the owner's pid, locked as long as the owner lives.

    The kernel drops the lock when its process dies, however it dies: the file of a dead process locks nobody out, also
    when its pid belongs to somebody else by now. The file stays, empty: removing it would race with the next owner.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # not inherited by worker processes
        try:
            if fcntl is not None:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._handle, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(self._handle)
            raise InputError(f"{path.parent}: in use by {owner}; wait for it or choose another folder") from None
        except OSError:
            pass  # a file system without locks: better unlocked than unusable
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        os.ftruncate(self._handle, 0)
        os.close(self._handle)


class JobFolder:
    """An open, locked job folder. `question` is what was asked first, `notes` says what was found damaged."""

    def __init__(self, path: Path, lock: FolderLock, resumed: bool, question: dict[str, Any]) -> None:
        self.path, self.question = path, question
        self.resumed = resumed
        self.notes: list[str] = []
        self._lock = lock

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        kind: str,
        question: Mapping[str, Any],
        *,
        resume: bool = False,
        may_differ: str | None = None,
    ) -> JobFolder:
        """Make the folder, or go on with the same job in it.

        Args:
            path: a folder that is new, empty, or (with `resume`) holds this very job.
            kind: the verb, e.g. "certify".
            question: everything the results depend on, JSON-able: hashes of network and data, options.
            may_differ: a key of the question, such as a time limit, that a run may change when it goes on with a job.
        """
        folder = Path(path)
        asked = {"format": FORMAT, "kind": kind, "question": json.loads(json.dumps(dict(question)))}
        asked["fingerprint"] = fingerprint(asked)
        _check(folder, asked, resume, may_differ)
        try:
            (folder / "pieces").mkdir(parents=True, exist_ok=True)
            lock = FolderLock(folder / "lock")
        except OSError as error:
            raise InputError(f"{folder}: cannot write there ({error.strerror})") from None
        try:
            found = _check(folder, asked, resume, may_differ)  # again: another process may have come first
            if found is None:
                _write_json(folder / "job.json", asked)
            ours = (left for end in ("json", "npz", "csv") for left in folder.glob(f".*.{end}.*"))
            for left in (*ours, *(folder / "pieces").glob(".*")):
                left.unlink(missing_ok=True)  # half-written by a process that was killed
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, found is not None, (found or asked)["question"])

    def load(self, name: str) -> Outcome | None:
        """The stored outcome; None when there is none, or (with a note) when its record or files are damaged.

        Its value is the claim of whoever wrote it: a caller has to check it before using it.
        """
        kept = self._file(name, "json")
        if not kept.exists():
            return None
        try:
            stored = _RECORD(read_json(kept, constants=True), "")
            if stored["name"] != name or (stored["value"] is None) == (stored["error"] is None):
                raise FileFormatError("the record of something else")
            files: dict[str, bytes | Path] = {}
            for extension, length in stored["files"].items():
                file = files[extension] = self._file(name, check_extension(extension))
                if not file.is_file() or file.stat().st_size != length:
                    raise FileFormatError("a file of another length")
        except (InputError, OSError):
            self._redo(kept)
            return None
        return Outcome(name, stored["value"], stored["error"], stored["seconds"], files)

    def store(self, finished: Finished) -> Outcome:
        """Write one outcome, its files before its record; returns it with the files as paths."""
        outcome = finished.outcome
        files: dict[str, bytes | Path] = {}
        for extension in outcome.files:
            files[extension] = _write(self._file(outcome.name, extension), outcome.read(extension))
        log = self._file(outcome.name, "log")
        if finished.trace is not None:
            _write(log, finished.trace.encode("utf-8", "replace"))
        else:
            log.unlink(missing_ok=True)
        content = {
            "name": outcome.name,
            "value": outcome.value,
            "error": outcome.error,
            "seconds": outcome.seconds,
            "files": {extension: len(outcome.read(extension)) for extension in outcome.files},
        }
        _write_json(self._file(outcome.name, "json"), content)
        return Outcome(outcome.name, outcome.value, outcome.error, outcome.seconds, files)

    def forget(self, name: str) -> None:
        """Drop the record of a piece whose answer turned out to be of no use, with a note: it will be done again."""
        record = self._file(name, "json")
        record.unlink(missing_ok=True)
        self._redo(record)

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> JobFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _redo(self, record: Path) -> None:
        self.notes.append(f"{record}: damaged, the piece is done again")

    def _file(self, name: str, extension: str) -> Path:
        return self.path / "pieces" / f"{file_stem(name)}.{extension}"


def fingerprint(job: Mapping[str, Any]) -> str:
    """A hash of kind and question that does not depend on the order of their keys."""
    asked = json.dumps([job["kind"], job["question"]], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()


def _check(folder: Path, asked: dict[str, Any], resume: bool, may_differ: str | None) -> dict[str, Any] | None:
    """This job as the folder holds it, None where it holds none; refuse everything that is not ours to write into."""
    try:
        inside = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{folder}: cannot be used as a job folder ({error.strerror})") from None
    if "job.json" not in inside:
        if any(name not in _BEFORE_THE_JOB and not name.startswith(".job.json.") for name in inside):
            raise InputError(f"{folder}: not empty and no job; choose a new or empty folder")
        return None
    found = read_job_file(folder / "job.json")
    if may_differ in found["question"]:
        asked = asked | {"question": asked["question"] | {may_differ: found["question"][may_differ]}}
    if found["fingerprint"] != fingerprint(asked):
        raise InputError(f"{folder}: holds another job: {_difference(found, asked)}; choose another folder")
    if not resume:
        held = f"{folder}: holds this job already"
        raise InputError(
            f"{held}; give resume=True to go on with it, or another folder",
            f"{held}; use --resume to go on with it, or another folder",
        )
    return found


def read_job_file(path: Path) -> dict[str, Any]:
    """The job in job.json, when its fingerprint agrees."""
    try:
        job = an_object(read_json(path), "")
        if not isinstance(job.get("kind"), str) or job.get("fingerprint") != fingerprint(job):
            raise FileFormatError("the fingerprint is another one")
        an_object(job["question"], "question")
    except (FileFormatError, KeyError):
        raise InputError(f"{path}: damaged or not a job of lipcert; choose another folder") from None
    if job.get("format") != FORMAT:
        raise InputError(f"{path}: format {job.get('format')!r} is not known to this version, which writes {FORMAT}")
    return job


def _difference(found: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """The first thing in which two jobs differ, in words."""
    if found["kind"] != asked["kind"]:
        return f"{found['kind']}, not {asked['kind']}"
    there, here = found["question"], asked["question"]
    key = next(k for k in sorted({*there, *here}) if (k in there, there.get(k)) != (k in here, here.get(k)))
    plural = key in ("cells", "inputs", "outputs", "radii", "weights")
    values = [_short(side[key]) if key in side else "nothing" for side in (there, here)]
    return f"its {key} {'are' if plural else 'is'} {values[0]}, not {values[1]}"


def _short(value: Any) -> str:
    words = json.dumps(value)
    return words if len(words) <= 60 else words[:57] + "..."


def _write(path: Path, contents: bytes) -> Path:
    write_atomically(path, lambda file: file.write(contents))
    return path


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    _write(path, (json.dumps(value, indent=1) + "\n").encode())


def file_stem(name: str) -> str:
    """Lower-case letters, digits and _ - . stand for themselves, every other byte of UTF-8 is =xx.

    A leading dot or dash is escaped (temporary files begin with a dot). A long name ends in its hash instead: "=h" is
    no escape, so it meets no other name.
    """
    if not name:
        raise InputError("a piece needs a name that is not empty")
    stem = "".join(c if _PLAIN.fullmatch(c) else _escape(c) for c in name)
    if stem[0] in ".-" or _RESERVED.match(stem):
        stem = _escape(stem[0]) + stem[1:]
    if len(stem) <= _LONGEST_STEM:
        return stem
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{stem[: _LONGEST_STEM - 42]}=h{digest}"


def _escape(character: str) -> str:
    return "".join(f"={byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
