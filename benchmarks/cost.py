"""`cost`: predict what a run of any size takes, by a model fitted to our own runs at several sizes.

Different pre-tokens grow with the text by Heaps' law (Heaps, Information Retrieval, 1978; Herdan, 1960): K n^b. Time of
a stage is a line over what the stage works through: bytes of text in counting, rows of the chunks' counters in
combining, bytes of different pre-tokens in merging. A cluster adds its network and the time of requests. Fits weigh
relative errors, so that small runs count as much as large ones.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.records import Record
from bpe_pipeline.merges.forecast import passes_over_disk

LEAST_SIZES = 4  # of a source; the largest is held back to test the prediction
SHARES = 256  # of the hash of pre-tokens, in which a cluster combines
STREAMED = 3  # times that merging reads a counter which it does not hold
USUAL_CHUNK_BYTES = 64 << 20
STORING_TIME, PASS_TIME = 0.4, 0.12  # of merging in memory: to write all words to disk, and of a pass over them


@dataclass(frozen=True)
class Power:
    """`factor * n ** exponent`."""

    factor: float
    exponent: float

    def __call__(self, n: float) -> float:
        """The value at n."""
        return self.factor * n**self.exponent


@dataclass(frozen=True)
class Line:
    """`fixed + each * x`, neither of them negative."""

    fixed: float
    each: float

    def __call__(self, x: float) -> float:
        """The value at x."""
        return self.fixed + self.each * x


Points = Sequence[tuple[float, float]]


def fit_power(points: Points) -> Power:
    """The least-squares line through the logarithms."""
    found = statistics.linear_regression([math.log(x) for x, _ in points], [math.log(y) for _, y in points])
    return Power(math.exp(found.intercept), found.slope)


def fit_line(points: Points) -> Line:
    """Fit the line of the least relative errors; one that falls or starts below zero becomes a constant or a ratio."""
    units = [(1 / y, x / y) for x, y in points if y > 0]
    if not units:
        return Line(0.0, 0.0)
    uu, uv, vv = (
        sum(a * b for a, b in rows) for rows in ([(u, u) for u, _ in units], units, [(v, v) for _, v in units])
    )
    u, v = sum(u for u, _ in units), sum(v for _, v in units)
    determinant = uu * vv - uv * uv
    if determinant > 1e-12 * uu * vv:
        fixed, each = (u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant
        if fixed >= 0 and each >= 0:
            return Line(fixed, each)
        if each < 0:
            return Line(u / uu, 0.0)
    return Line(0.0, v / vv if vv else 0.0)


@dataclass(frozen=True)
class Model:
    """What runs on one source cost. Seconds are those of one core in counting and combining, else of a machine."""

    source: str
    pre_tokens: Power  # different ones, over bytes of text
    pre_token_bytes: Power
    repeated_bytes: Power  # of the pre-tokens that occur twice or more
    row_bytes: float  # of a counter on disk
    counting: Line
    combining: Line
    merging: Line
    rest: float  # start, planning, exporting
    peak_bytes: Line  # of all processes, over bytes of different pre-tokens


def measured_sizes(records: Sequence[Record]) -> dict[str, list[Record]]:
    """source -> its finished runs over sizes, medians of the rounds, the smallest first."""
    found: dict[str, dict[int, list[Record]]] = {}
    for record in records:
        if (record["kind"], record.get("over"), record.get("status")) == ("growth", "corpus_bytes", "ok"):
            found.setdefault(record["source"], {}).setdefault(record["corpus_bytes"], []).append(record)
    return {source: [_median(sizes[size]) for size in sorted(sizes)] for source, sizes in found.items()}


def _median(rounds: Sequence[Record]) -> Record:
    middle = {name: statistics.median(r[name] for r in rounds) for name in ("wall_s", "peak_memory_bytes")}
    stages = {name: statistics.median(r["stages"][name] for r in rounds) for name in rounds[0]["stages"]}
    return rounds[0] | middle | {"stages": stages}


def fit(runs: Sequence[Record]) -> Model:
    """The model of one source's runs, of which there are two sizes or more."""
    cores = runs[0]["machine"]["usable_cores"]

    def over(x: Callable[[Record], float], y: Callable[[Record], float]) -> Points:
        return [(x(run), y(run)) for run in runs]

    def size(run: Record) -> float:
        return float(run["corpus_bytes"])

    return Model(
        source=runs[0]["source"],
        pre_tokens=fit_power(over(size, lambda run: run["different_pre_tokens"])),
        pre_token_bytes=fit_power(over(size, lambda run: run["pre_token_bytes"])),
        repeated_bytes=fit_power(over(size, lambda run: run["repeated_bytes"])),
        row_bytes=sum(run["chunk_counter_bytes"] for run in runs) / sum(run["chunk_rows"] for run in runs),
        counting=fit_line(over(size, lambda run: cores * run["stages"]["counting"])),
        combining=fit_line(over(lambda run: run["chunk_rows"], lambda run: cores * run["stages"]["combining"])),
        merging=fit_line(over(lambda run: run["pre_token_bytes"], lambda run: run["stages"]["merging"])),
        rest=statistics.median(
            run["wall_s"] - sum(run["stages"][name] for name in ("counting", "combining", "merging")) for run in runs
        ),
        peak_bytes=fit_line(over(lambda run: run["pre_token_bytes"], lambda run: run["peak_memory_bytes"])),
    )


def chunk_rows(model: Model, corpus_bytes: float, chunk_bytes: float) -> float:
    """Rows of all chunks' counters together."""
    chunk_bytes = min(chunk_bytes, corpus_bytes)
    return corpus_bytes / chunk_bytes * model.pre_tokens(chunk_bytes)


def on_this_machine(model: Model, corpus_bytes: float, cores: int) -> tuple[float, float]:
    """Return seconds and bytes of memory of a run on the measured machine."""
    rows = chunk_rows(model, corpus_bytes, USUAL_CHUNK_BYTES)
    pre_token_bytes = model.pre_token_bytes(corpus_bytes)
    seconds = (
        (model.counting(corpus_bytes) + model.combining(rows)) / cores + model.merging(pre_token_bytes) + model.rest
    )
    return seconds, model.peak_bytes(pre_token_bytes)


@dataclass(frozen=True)
class Prediction:
    """A measured run compared with the prediction from smaller runs."""

    source: str
    corpus_bytes: int
    seconds: tuple[float, float]  # predicted, measured
    memory_bytes: tuple[float, float]


def predict(records: Sequence[Record]) -> list[Prediction]:
    """Predict the largest run of each source from all its smaller ones."""
    found = []
    for source, runs in measured_sizes(records).items():
        if len(runs) >= LEAST_SIZES:
            *smaller, largest = runs
            cores = largest["machine"]["usable_cores"]
            seconds, memory = on_this_machine(fit(smaller), largest["corpus_bytes"], cores)
            found.append(
                Prediction(
                    source,
                    largest["corpus_bytes"],
                    (seconds, largest["wall_s"]),
                    (memory, largest["peak_memory_bytes"]),
                )
            )
    return found


@dataclass(frozen=True)
class Cluster:
    """Where a run is planned. network_bytes_s: between each node and the storage; request_s: of one request to it."""

    nodes: int
    cores: int
    memory_bytes: int
    network_bytes_s: float
    request_s: float


@dataclass(frozen=True)
class StageCost:
    """One stage of a planned run: its seconds by what they are spent on; they go on at the same time."""

    name: str
    seconds_by: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """What the stage waits for."""
        return max(self.seconds_by, key=lambda name: self.seconds_by[name])

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.seconds_by[self.bottleneck]


@dataclass(frozen=True)
class Plan:
    """A planned run. counter_bytes: of the whole counter on disk; chunk_counter_bytes: of all chunks' counters."""

    stages: tuple[StageCost, ...]
    pre_tokens: float
    counter_bytes: float
    chunk_counter_bytes: float
    merging_bytes: float  # of each node that merges
    merging_repeated_bytes: float  # with --min-pre-token-count 2
    memory_bytes: int

    @property
    def bottleneck(self) -> str:
        """The first thing in the way: memory where merging has too little, else the longest stage's."""
        if self.merging_bytes > self.memory_bytes:
            return "memory of a node that merges"
        longest = max(self.stages, key=lambda stage: stage.seconds)
        return f"{longest.bottleneck} in {longest.name}"


def plan(model: Model, cluster: Cluster, corpus_bytes: float, chunk_bytes: float) -> Plan:
    """Predict what a corpus of this size takes on a cluster.

    Merging's time is not divided by a node's cores beyond those of the machine that was measured: what more of them
    give was not measured.
    """
    cores, network = cluster.nodes * cluster.cores, cluster.nodes * cluster.network_bytes_s
    rows = chunk_rows(model, corpus_bytes, chunk_bytes)
    pre_tokens, pre_token_bytes = model.pre_tokens(corpus_bytes), model.pre_token_bytes(corpus_bytes)
    chunks = math.ceil(corpus_bytes / chunk_bytes)
    chunk_counters, counter = rows * model.row_bytes, pre_tokens * model.row_bytes
    counting = StageCost(
        "counting",
        {
            "processors": model.counting(corpus_bytes) / cores,
            "network": (corpus_bytes + chunk_counters) / network,
        },
    )
    combining = StageCost(
        "combining",
        {
            "processors": model.combining(rows) / min(cores, SHARES),
            "network": (chunk_counters + counter) / network,
            "requests": chunks * SHARES * cluster.request_s / min(cores, SHARES),
        },
    )
    joining = StageCost("joining", {"network of one node": 2 * counter / cluster.network_bytes_s})
    needed_bytes = model.peak_bytes(pre_token_bytes)
    fits = needed_bytes <= cluster.memory_bytes
    times = 1.0 if fits else 1 + STORING_TIME + PASS_TIME * passes_over_disk(cluster.memory_bytes / needed_bytes)
    merging = StageCost(
        "merging",
        {
            "processors of one node" if fits else "words on disk": times * model.merging(pre_token_bytes),
            "network of one node": STREAMED * counter / cluster.network_bytes_s,
        },
    )
    return Plan(
        (counting, combining, joining, merging),
        pre_tokens,
        counter,
        chunk_counters,
        needed_bytes,
        model.peak_bytes(min(model.repeated_bytes(corpus_bytes), pre_token_bytes)),
        cluster.memory_bytes,
    )
