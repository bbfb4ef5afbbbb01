"""Long work in independent pieces that survives a kill; this room knows nothing of networks.

with JobFolder.open("job", "certify", question, resume=True) as folder, processes(2) as executor:
    run = run_pieces([Piece("pair-0-1", work, (net, 0, 1)), ...], folder, executor)
"""

from lipcert.jobs.executors import chosen_executor, cluster, isolated, local, processes
from lipcert.jobs.folder import JobFolder
from lipcert.jobs.piece import Answer, Outcome, Piece
from lipcert.jobs.run import End, JobProgress, Run, run_pieces, stored_outcomes

__all__ = [
    "Answer",
    "End",
    "JobFolder",
    "JobProgress",
    "Outcome",
    "Piece",
    "Run",
    "chosen_executor",
    "cluster",
    "isolated",
    "local",
    "processes",
    "run_pieces",
    "stored_outcomes",
]
