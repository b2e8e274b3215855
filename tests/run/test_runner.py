"""A stage does what is missing, reports it, and returns all results in the order of its tasks."""

from dataclasses import replace

import pytest
from tasks_here import TasksHere

from bpe_pipeline.base.events import Advanced, Event, StageEnded, StageStarted
from bpe_pipeline.executors.worker import report_progress
from bpe_pipeline.run.make_options import make_options
from bpe_pipeline.run.options import TrainOptions
from bpe_pipeline.run.runner import Runner, Stage, watched


def doubled(number: int) -> int:
    if number < 0:
        raise KeyboardInterrupt
    report_progress(number)
    return 2 * number


STAGE = Stage("doubling", "units", doubled, [3, 4, 5], [30, 40, 50], kept="doubled")


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def runner(events: list[Event]) -> Runner:
    with watched(make_options(TrainOptions, {"workers": 2}), TasksHere(lambda: 2), events.append) as runner:
        return runner


@pytest.mark.parametrize(
    ("stored", "done"), [([None, None, None], 0), ([None, 80, None], 40), ([60, None, 0], 80), ([1, 2, 3], None)]
)
def test_what_is_stored_is_not_done_again(
    runner: Runner, events: list[Event], stored: list[int | None], done: int | None
) -> None:
    found = runner.run(replace(STAGE, stored=lambda tasks: stored[: len(tasks)]))
    assert found == [2 * task if one is None else one for task, one in zip(STAGE.tasks, stored, strict=True)]
    if done is None:
        assert (events, runner.times, runner.kept) == ([], {"doubling": None}, "")
        return
    assert events[0] == StageStarted("doubling", 120, "units", done)
    assert isinstance(events[-1], StageEnded)
    assert sum(one.amount for one in events if isinstance(one, Advanced)) == sum(
        task for task, one in zip(STAGE.tasks, stored, strict=True) if one is None
    )
    assert runner.kept == "120 B of 120 B doubled"


def test_what_an_interruption_leaves_is_noted(runner: Runner) -> None:
    with pytest.raises(KeyboardInterrupt):
        runner.run(replace(STAGE, tasks=[3, -1, 5], stored=lambda _: [None, None, 1]))
    assert runner.kept == "80 B of 120 B doubled"
    assert runner.times == {}


def test_unfinished_outputs_count_and_a_stage_that_runs_again_adds_its_time(
    runner: Runner, events: list[Event]
) -> None:
    for _ in range(2):
        with runner.naming(" again"):
            runner.run(replace(STAGE, begun=len))
    assert events[0] == StageStarted("doubling again", 120, "units", 3)
    ended = [one.elapsed_s for one in events if isinstance(one, StageEnded)]
    assert runner.times == {"doubling again": pytest.approx(sum(ended), abs=0.01)}
    with runner.naming(" again"):
        runner.skip("doubling")
    assert runner.times["doubling again"] is not None
