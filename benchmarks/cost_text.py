"""The cost model as text: what was fitted, how well it predicts, and what larger runs would take."""

from collections.abc import Sequence

from benchmarks import cost
from benchmarks.corpora import size_text
from benchmarks.records import Record
from benchmarks.texts import table

CHUNK_BYTES = 4 << 30
NOTHING = f"_No source was measured at {cost.LEAST_SIZES} sizes: `python -m benchmarks growth CORPUS --sizes ...`._"


def time_text(seconds: float) -> str:
    """5400 -> `1.5 h`: two digits in a readable unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}" if seconds < 99.5 * length else f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} s"


def _error(predicted: float, measured: float) -> str:
    return f"{100 * (predicted / measured - 1):+.0f} %"


def prediction_section(records: Sequence[Record]) -> list[str]:
    """Return a row for each source: the largest run and its prediction from the smaller ones."""
    head = "source | largest: | time: predicted, measured: | error: | memory: predicted, measured: | error:"
    rows = []
    for one in cost.predict(records):
        (seconds, took), (memory, held) = one.seconds, one.memory_bytes
        cells = [one.source, size_text(one.corpus_bytes), f"{seconds:.2f} s, {took:.2f} s", _error(seconds, took)]
        cells += [f"{size_text(memory)}, {size_text(held)}", _error(memory, held)]
        rows.append(f"| {' | '.join(cells)} |")
    note = "The largest run of each source was not used for its own prediction."
    return table("How well the model predicts", head, rows, note)


def model_section(models: Sequence[cost.Model]) -> list[str]:
    """Return a row for each source: what was fitted to all its runs."""
    head = "source | different pre-tokens of n bytes | their bytes | counting, a core: | combining, a core: | merging: "
    head += "| memory:"
    rows = [
        f"| {model.source} | {_power(model.pre_tokens)} | {_power(model.pre_token_bytes)} "
        f"| {_rate(model.counting, 1e6)} MB/s | {_rate(model.combining, 1e6)} million rows/s "
        f"| {_rate(model.merging, 1e6)} MB of pre-tokens/s "
        f"| {size_text(model.peak_bytes.fixed)} + {model.peak_bytes.each:.1f} a byte of pre-tokens |"
        for model in models
    ]
    return table("Fitted model", head, rows)


def _power(power: cost.Power) -> str:
    return f"{power.factor:.3g} n^{power.exponent:.3f}"


def _rate(line: cost.Line, unit: float) -> str:
    return f"{1 / line.each / unit:,.3g}" if line.each else "-"


def plan_section(
    models: Sequence[cost.Model], cluster: cost.Cluster, sizes: Sequence[int], chunk_bytes: int
) -> list[str]:
    """Return a column for each source and size: time by stage, memory, the bottleneck."""
    columns = []
    for model in models:
        for size in sizes:
            planned = cost.plan(model, cluster, size, chunk_bytes)
            stages = [f"{time_text(stage.seconds)} ({stage.bottleneck})" for stage in planned.stages]
            files = [planned.counter_bytes, planned.chunk_counter_bytes]
            memory = [planned.merging_bytes, planned.merging_repeated_bytes]
            named = f"{model.source}, {size_text(size)}"
            columns.append(
                [named, *stages, f"{planned.pre_tokens:.2g}", *map(size_text, files + memory), planned.bottleneck]
            )
    names = ["counting", "combining", "joining", "merging", "unique pre-tokens", "counter", "chunk counters"]
    names += ["memory of merging", "with `--min-pre-token-count 2`", "bottleneck"]
    head, *rows = zip(["", *names], *columns, strict=True)
    note = (
        f"{cluster.nodes} nodes with {cluster.cores} cores, {size_text(cluster.memory_bytes)} of memory and "
        f"{size_text(cluster.network_bytes_s)} a second to the storage, {1000 * cluster.request_s:g} ms a request; "
        f"chunks of {size_text(chunk_bytes)}."
    )
    return table(
        f"Predicted for {cluster.nodes} nodes", " | ".join(head), [f"| {' | '.join(row)} |" for row in rows], note
    )


def text(records: Sequence[Record], cluster: cost.Cluster, sizes: Sequence[int], chunk_bytes: int) -> str:
    """Return the whole report as Markdown."""
    models = _models(records)
    lines = prediction_section(records) + model_section(models) + plan_section(models, cluster, sizes, chunk_bytes)
    return "\n".join(lines).rstrip() or NOTHING


def on_a_cluster(records: Sequence[Record]) -> str:
    """Return a row for each source and size: 1 and 10 TB on 16 nodes."""
    nodes = cost.Cluster(16, 32, 256 << 30, 1_250_000_000, 0.02)
    return "\n".join(plan_section(_models(records), nodes, [10**12, 10**13], CHUNK_BYTES)).rstrip()


def of_the_model(records: Sequence[Record]) -> str:
    """Return what was fitted, and how well it predicts."""
    return "\n".join(prediction_section(records) + model_section(_models(records))).rstrip()


def _models(records: Sequence[Record]) -> list[cost.Model]:
    return [cost.fit(runs) for runs in cost.measured_sizes(records).values() if len(runs) >= cost.LEAST_SIZES]


def on_one_machine(records: Sequence[Record]) -> str:
    """Return a row for each kind of text and size: what 1 to 100 GB take with few cores and with more."""
    few, many = (cost.Cluster(1, cores, 16 << 30, 10**9, 0.0001) for cores in (2, 8))
    measured, rows = cost.measured_sizes(records), list[str]()
    for source, named in (
        ("multilingual-250.txt", "translations in 94 languages"),
        ("kernel.txt", "source code of Linux"),
    ):
        model = cost.fit(measured[source])
        for size in (10**9, 10**10, 10**11):
            planned = [cost.plan(model, machine, size, CHUNK_BYTES) for machine in (few, many)]
            counting, merging = [time_text(one.stages[0].seconds) for one in planned], planned[0].stages[-1].seconds
            sizes = [planned[0].merging_bytes, planned[0].chunk_counter_bytes, planned[0].counter_bytes]
            memory, chunks, counter = map(size_text, sizes)
            cells = [named, size_text(size), *counting, time_text(merging), memory, f"{chunks}, {counter}"]
            rows.append(f"| {' | '.join(cells)} |")
    head = "text like | corpus: | counting, 2 cores: | counting, 8 cores: | merging: | memory of merging: "
    return "\n".join(table("Predicted for one machine", f"{head}| disk, chunk counters and counter:", rows)).rstrip()
