import numpy as np
import pandas as pd

from nsysprof.notes import Note, Severity
from nsysprof.ranks.distributions import Distributions
from nsysprof.ranks.overview import rank_notes
from nsysprof.results.rank_results import ClockFit, RankRow


def notes(rows, ranges=(), uneven=(), clocks=()):
    table = pd.DataFrame(ranges, columns=["rank", "range"])
    columns = ["range", "least", "least_rank", "most", "most_rank"]
    nothing = Distributions((), *(np.zeros(0) for _ in range(len(Distributions.__dataclass_fields__) - 1)))
    found = rank_notes(rows, clocks, table, pd.DataFrame(uneven, columns=columns), nothing)
    return {note.code: note for note in found}


def row(rank, **facts):
    return RankRow(rank, f"rank{rank}.sqlite", rank, facts.pop("rank_from", "trace"), **facts)


def test_a_whole_job_has_no_notes():
    assert notes([row(0, world_size=2), row(1, world_size=2)], [(0, "step"), (1, "step")]) == {}


def test_ranks_that_are_not_there_are_named():
    assert "1" in notes([row(0, world_size=3), row(2, world_size=3)])["missing-ranks"].text
    assert "missing-ranks" in notes([row(0), row(5)]), "the highest rank says how many there were"
    assert "missing-ranks" not in notes([row(0), row(1)])


def test_what_could_not_be_read_says_why():
    note = notes([row(0), row(1, reason="it is damaged", next_step="Fetch it again.")])["traces-unread"]
    assert "it is damaged" in note.text
    assert note.next_step == "Fetch it again."


def test_traces_of_several_jobs_and_tools_are_told_apart():
    assert "different-jobs" in notes([row(0, world_size=1), row(1, world_size=2)])
    assert "different-jobs" in notes([row(0), row(1)], [(0, "a"), (1, "b")])
    assert "mixed-nsys" in notes([row(0, nsys_version="2024.2"), row(1, nsys_version="2025.3")])


def test_a_note_of_several_traces_becomes_one_with_the_worst_severity():
    told = [Note("lost", severity, "Kernels are missing.") for severity in (Severity.WARNING, Severity.ERROR)]
    note = notes([row(0, notes=(told[0],)), row(1, notes=(told[1],))])["lost"]
    assert (note.severity, note.text) == (Severity.ERROR, "Rank 0, 1: Kernels are missing.")


def test_ranges_that_ranks_do_not_have_equally_often():
    uneven = [("step", 2, 0, 3, 1), ("layer", 1, 0, 9, 1)]
    assert "layer" in notes([row(0), row(1)], uneven=uneven)["uneven-ranks"].text


def test_a_rank_without_a_clock_says_why():
    clocks = [ClockFit(0, "reference", 0, 0, 0, 0), ClockFit(1, "", None, 0, None, None, "it has no NCCL collective")]
    assert "it has no NCCL collective" in notes([row(0), row(1)], clocks=clocks)["no-common-clock"].text
