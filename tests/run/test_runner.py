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


@pytest.mark.parametrize(("exist", "done"), [(set(), 0), ({1}, 40), ({0, 2}, 80), ({0, 1, 2}, None)])
def test_what_exists_is_not_done_again(runner: Runner, events: list[Event], exist: set[int], done: int | None) -> None:
    found, missing = runner.run(replace(STAGE, done=exist)), [STAGE.tasks[index] for index in {0, 1, 2} - exist]
    assert found == [2 * task for task in missing]
    if done is None:
        assert (events, runner.times, runner.kept) == ([], {"doubling": None}, "")
        return
    assert events[0] == StageStarted("doubling", 120, "units", done)
    assert isinstance(events[-1], StageEnded)
    assert sum(one.amount for one in events if isinstance(one, Advanced)) == sum(missing)
    assert runner.kept == "120 B of 120 B doubled"


def test_what_an_interruption_leaves_is_noted(runner: Runner) -> None:
    with pytest.raises(KeyboardInterrupt):
        runner.run(replace(STAGE, tasks=[3, -1, 5], done={2}))
    assert runner.kept == "80 B of 120 B doubled"
    assert runner.times == {}


def test_unfinished_outputs_count_and_a_stage_that_runs_again_adds_its_time(
    runner: Runner, events: list[Event]
) -> None:
    for _ in range(2):
        with runner.naming(" again"):
            runner.run(replace(STAGE, begun=3))
    assert events[0] == StageStarted("doubling again", 120, "units", 3)
    ended = [one.elapsed_s for one in events if isinstance(one, StageEnded)]
    assert runner.times == {"doubling again": pytest.approx(sum(ended), abs=0.01)}
    with runner.naming(" again"):
        runner.skip("doubling")
    assert runner.times["doubling again"] is not None
