"""bound(): the public function. It checks its arguments and hands a question, settings and a budget to `method.run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from numpy.typing import ArrayLike

from lipcert.errors import InputError, shown
from lipcert.jobs import cluster
from lipcert.method import table
from lipcert.method.regions import RegionTurns
from lipcert.method.result import Result, UnionResult
from lipcert.method.run import answer
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output, OutputChoice
from lipcert.problem.question import Question
from lipcert.problem.region import Region
from lipcert.proof.union import MOST_PARTS
from lipcert.readers.given import TorchModule, network_of
from lipcert.search.progress import Progress
from lipcert.search.settings import Settings


def bound(
    net: Network | str | os.PathLike[str] | TorchModule,
    region: Region | Sequence[Region],
    *,
    output: OutputChoice | Output = None,
    norm: str | Norm = "inf",
    output_norm: str | None = None,
    input_weights: ArrayLike | None = None,
    output_weights: ArrayLike | None = None,
    inputs: Sequence[int] | None = None,
    method: str = "auto",
    solver: str = "auto",
    time_limit: float = 60.0,
    work: float | None = None,
    seed: int = 0,
    lower: bool = True,
    literal: bool = False,
    gap: float = 0.0,
    below: float | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    memory: int | float | str | None = None,
    explain: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Bracket the Lipschitz constant of one scalar output, or of the whole map, on a region:

        L = max { ||gradient of c'scores at x||_dual : x in region }
        L = max { ||Jacobian of the scores at x||_(p to q) : x in region }

    Args:
        net: from `lipcert.load`, `lipcert.from_torch` or `Network.from_weights`; or the path of a file, or a torch
            module, which are read by the first two with their defaults. A module that starts with a convolution takes
            the shape of its input from the region's center, an image (channels, height, width).
        region: `Box(center, radius)`, `Ball(center, radius)`, `Polytope(box or ball, A, b)` (those of its points with
            A x <= b) or `Everywhere()`. For a list or tuple of them (at most 1,000) the answer is a `UnionResult` about
            the largest of their constants; two points are compared only where one of the regions holds both.
        output: a label, a pair (i, j) for score_i - score_j, or a weight vector; may be left out for a single output.
            "all" for the whole map.
        norm: the norm of input changes, p: "inf", "2" or "1".
        output_norm: the norm of output changes, q, of the whole map: "inf", "2" or "1"; p where it is left out.
        input_weights: w > 0, one for every input: changes t are measured as |diag(w) t|_p. Or a positive definite P of
            the Euclidean norm: as sqrt(t'Pt); of the chosen `inputs` alone where these are given.
        output_weights: likewise for changes of the scores of the whole map.
        inputs: the numbers of the inputs that change, all by default. The others move within the region, but are the
            same in both points compared.
        method: one of `lipcert.METHODS`. "auto" takes turns with all that apply; "product", "interval", "linear" and
            "mixed" need no solver; "slopes" has one multiplier per neuron, for any depth; "shor" and "hr2" are the
            paper's relaxations of one hidden layer; "backward", "forward" and "both" (with "-free": without the values
            x) lift networks of any depth; "tight" adds rows and cuts that the paper does not have; "exact" is branch
            and bound over signs and over cells of the region. The paper's "hr1", "hr3", "lipopt3", "lipopt4", "lifting"
            are solved as it states them.
        literal: solve "shor" or "hr2" as the paper states them too, by a general conic solver.
        solver: "auto", "rank-two" (interior point) or "low-rank" (first order); for literal methods a conic solver:
            "clarabel", "scs", "highs", "mosek", "csdp", ...
        time_limit: seconds; the best proved bracket so far is returned when it is reached, or on Ctrl-C.
        work: counted work instead of a time limit, in nominal seconds of one core: the same inputs, seed and work give
            the same bracket bit for bit, however busy the machine is.
        seed: of the random search for the lower bound.
        lower: whether the answer should have a lower bound. Without it "auto" takes turns with relaxations alone.
        gap: the relative gap at which a bracket is good enough; 0 means exact, to 1e-6.
        below: a limit; stop as soon as the constant is proved below it, or a witness is not.
        workers: how many processes "exact" and "auto" bound cells in; always one with `work`.
        scheduler: the address of a Dask cluster, tcp://host:port, whose workers do that instead; not with `work`.
        memory: the most that the process may have: "4G", "500M", "75%" of the machine, or bytes; near it the best
            proved bracket so far is returned. By default three quarters of the machine (or of its control group).
            Processes of `workers` share it; every worker of a cluster has the default of its own machine.
        explain: show in the result which engine of "auto" or "exact" worked when, and what came of it; `turns` of the
            result has that in any case.
        on_progress: called with a `Progress` whenever the bracket or the stage changes.

    Guarantees: `upper` is proved with outward rounding for the given float64 weights; `lower` is a proved lower bound
    of the gradient norm at `witness`, a point of the region.
    """
    several = isinstance(region, list | tuple)
    regions = cast(Sequence[Region], region if several else [region])
    if not 1 <= len(regions) <= MOST_PARTS:
        raise InputError(f"{len(regions)} regions; give 1 to {MOST_PARTS:,}")
    table.named(method, literal).check_solver(solver)
    settings = Settings(
        method=method,
        literal=literal,
        solver=solver,
        time_limit=time_limit,
        work=work,
        seed=seed,
        lower=lower,
        gap=gap,
        below=below,
        workers=workers,
        scheduler=scheduler,
        memory=memory,
        explain=explain,
    )
    network = network_of(net, getattr(regions[0], "shape", None))
    if settings.scheduler is not None:
        with cluster(settings.scheduler):  # an address that does not answer is refused before any work
            pass
    budget = settings.budget(settings.own_memory())
    weights = (input_weights, output_weights, inputs)
    question = Question.of_constant(network, regions, output, (norm, output_norm), weights)
    if several:
        return RegionTurns(question, settings, budget, on_progress).run()
    return answer(question, settings, budget, on_progress)


def bound_union(
    net: Network | str | os.PathLike[str] | TorchModule, regions: Iterable[Region], **options: Any
) -> UnionResult:
    """Bracket the largest Lipschitz constant of several regions: `bound` with a list of regions, by its older name.

    Args:
        net: as for `bound`.
        regions: at most 1,000 of them, each as for `bound`.
        options: all other arguments of `bound`. Times and work are those of all regions together; progress has the
            bracket of the region that is worked on.

    Guarantees: those of `bound`, for every region; `upper` is the largest upper bound, `lower` the largest lower one.
    """
    unknown = sorted(options.keys() - (bound.__kwdefaults__ or {}).keys())
    if unknown:
        raise InputError(f"bound_union has no option {unknown[0]!r}; it has those of bound")
    if not isinstance(regions, Iterable):
        raise InputError(f"regions={shown(regions)}: give a list of regions; bound is for one of them")
    found = bound(net, tuple(regions), **options)
    assert isinstance(found, UnionResult)
    return found
