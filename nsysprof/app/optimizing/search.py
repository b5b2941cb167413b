"""Search what makes a program faster: each remedy alone in turns with the program, then what wins together, proven."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from nsysprof.analysis.comparison.compare_samples import compare_samples, needs_other_seed, rounding_of
from nsysprof.analysis.sampling.significance import is_better
from nsysprof.app.measuring.bench_program import BASELINE, CANDIDATE, RUNS, conclude, read_runs, write_runs
from nsysprof.app.measuring.program_request import ProgramBenchRequest, ProgramSide
from nsysprof.app.optimizing.trials import Trial
from nsysprof.app.progress import Progress
from nsysprof.capture.user_program.time_program import TimedProgram, run_timed
from nsysprof.report.document import count_of
from nsysprof.results.program_runs import (
    FAILED,
    OK,
    TIMED_OUT,
    ProgramComparison,
    RemedyEffect,
    TimedRun,
    ValueComparison,
)

# The seed of all runs, and of the one that shows how much other random numbers matter.
SEED, _OTHER_SEED = 20260, 4711
LOOK, _OTHER = "look", "other-seed"
# A remedy whose first turn takes so many times as long as the program's is given up: it would have to gain more than
# turns differ.
_SLOWER_AT_ONCE = 1.03
# After two turns, one that was slower in both is given up.
_SLOWER_TWICE = 1.0
# A remedy joins the set where the set with it takes at most this part of the time without it.
_JOINS_BELOW = 0.985
# A run with a remedy may take so many times as long as the longest of the program before it is ended, and this long.
_TIMES_AS_LONG, _LEAST_TIMEOUT_S = 6.0, 120.0
# A compiler keeps what it compiled, so that each run after its first starts later by this part of the first's delay.
_WARM_PART = 0.5
# Where the budget had no time for a second turn, a remedy that took at most this part of the time is worth a proof, in
# which it may gain more: channels_last took 0.974 of a ResNet's step in fp32, and 0.74 with TF32; the fused optimizer
# saved 1.1 of 95.5 ms of a ViT in fp32, and 1.1 of 37 ms with TF32.
_PROMISING_BELOW = 0.99
_ORDER = ("same", "random", "tf32", "bf16")


@dataclass(frozen=True)
class Tried:
    """A trial that was run, the comparison, and why it was given up (empty where it was not)."""

    trial: Trial
    comparison: ProgramComparison
    effect: RemedyEffect | None
    lost: str
    turns: int
    pays_after: int | None
    # The ratio of the step times over the turns so far.
    ratio: float = 1.0

    @property
    def wins(self) -> bool:
        """Return whether it is certainly faster, with the same or approximate values, and took effect."""
        return not self.lost and is_better(self.comparison)

    @property
    def is_promising(self) -> bool:
        """Return whether it wins, or would by the only turn that the budget had time for."""
        return self.wins or (not self.lost and self.turns == 1 and self.ratio <= _PROMISING_BELOW)


class Search:
    """The runs of a search, which are on disk after each of them.

    request: makes the request of a bench of two sides, whose options judge the runs.
    left_s: how much of the budget is left (s).
    """

    def __init__(
        self,
        program: TimedProgram,
        folder: Path,
        processes: int,
        request: Callable[[ProgramSide], ProgramBenchRequest],
        left_s: Callable[[], float],
        progress: Progress,
    ) -> None:
        self.program = replace(program, is_remedied=True, seed=SEED)
        self.folder, self.processes, self.progress = folder, processes, progress
        self._request, self.left_s = request, left_s
        self.runs: list[TimedRun] = []
        self.lost: dict[str, str] = {}
        # What was given up for its time alone.
        self._slower: set[str] = set()
        # What starts too slowly to be tried alone and then put together, and is tried on top of what has won.
        self._on_top: list[Trial] = []
        # What came of those, by name.
        self.told_on_top: dict[str, str] = {}
        # How many seconds more the budget needs for a trial that it had no time for.
        self.lacking_s: dict[str, float] = {}
        self._next_turn = 0
        # Where compilers keep what they compiled; None: where the user has them keep it.
        self.caches: Path | None = None

    def resume(self) -> None:
        """Take over the runs that an earlier search of the same program has left."""
        path = self.folder / RUNS
        if path.is_file():
            file = read_runs(path)
            if file.about == self._about():
                self.runs = [run for run in file.runs if run.status == OK]

    def _about(self) -> str:
        patterns = (self.program.step_pattern, self.program.step_range, self.program.value_pattern)
        return hashlib.sha256(repr((self.program.argv, patterns, self.program.warmup_steps)).encode()).hexdigest()

    def run(self, name: str, side: ProgramSide, turn: int, **changes: object) -> TimedRun:
        """Run one side once, or return the run that is on disk."""
        known = self._known(name, turn)
        if known is not None:
            return known
        self.progress.say(f"turn {turn + 1}: {name}")
        program = replace(self.program, argv=(*self.program.argv, *side.arguments), **changes)  # type: ignore[arg-type]
        label = re.sub(r"[^\w.=+-]+", "-", name)
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        run = run_timed(program, label, turn, {**side.environment(), **self._caches()}, logs, lambda: False)
        run = msgspec.structs.replace(run, side=name)
        self.runs.append(run)
        write_runs(self.folder, self._about(), self.runs)
        return run

    def _caches(self) -> dict[str, str]:
        """Return the variables by which compilers keep what they compiled with this search, not in the user's cache."""
        if self.caches is None:
            return {}
        names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        return {name: str(self.caches / name.partition("_")[0].lower()) for name in names}

    def _known(self, name: str, turn: int) -> TimedRun | None:
        return next((run for run in self.runs if (run.side, run.turn) == (name, turn)), None)

    def of(self, name: str) -> list[TimedRun]:
        """Return the runs of one side, in order of turns."""
        return sorted((run for run in self.runs if run.side == name), key=lambda run: run.turn)

    def run_s(self, name: str = BASELINE) -> float:
        """Return how long a run of a side takes (s): its longest, or the program's where it has none yet."""
        runs = self.of(name) or self.of(BASELINE) or self.of(LOOK)
        return max((run.wall_ns * 1e-9 for run in runs), default=0.0)

    def try_alone(self, trials: Sequence[Trial]) -> list[Tried]:
        """Run each trial in turns with the program as it is. What loses is dropped early."""
        live = self._affordable(trials)
        for turn in range(self.processes if live else 0):
            if turn > 0 and not self._has_time_for(live, turn):
                break
            self._turn(live, turn)
            live = [trial for trial in live if self._goes_on(trial, turn)]
            if not live:
                break
        self._next_turn = self.processes
        return [self._judge(trial) for trial in trials if self.of(trial.name)]

    def _affordable(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return what the first turn has the time for.

        The time to put together what helps, and to prove it in two turns, is held back. Where that leaves no time for
        something that starts slowly, one such trial is kept for a run on top of what has won.
        """
        rest_s = self.left_s() - self.run_s()
        chosen: list[Trial] = []
        for trial in trials:
            cost_s = self.run_s(trial.name) + trial.start_s
            join_s = self.again_s(trial) if chosen else 0.0
            proof_s = self._proof_s([trial, *chosen, *self._on_top])
            is_first = not chosen and trial.start_s == 0.0
            if rest_s >= cost_s + join_s + proof_s or is_first or self._known(trial.name, 0) is not None:
                chosen.append(trial)
                rest_s -= cost_s
            elif trial.start_s and chosen and not self._on_top and rest_s >= cost_s + proof_s:
                self._on_top.append(trial)
                rest_s -= cost_s
            else:
                self.lacking_s[trial.name] = cost_s + join_s + proof_s - rest_s
        return chosen

    def _has_time_for(self, live: Sequence[Trial], turn: int) -> bool:
        """Return whether there is time for one more turn of all, to put them together one by one, and for a proof.

        A set gains more than another turn of its members tells.
        """
        if all(self._known(trial.name, turn) for trial in live):
            return True
        each_s = [self.again_s(trial) for trial in live]
        turn_s = self.run_s() + sum(each_s)
        return self.left_s() >= turn_s + (len(live) - 1) * max(each_s) + 1.5 * self._proof_s(live)

    def again_s(self, trial: Trial) -> float:
        """Return how long a run with a trial takes from the second on (s), where a compiler has kept what it made."""
        runs, plain_s = self.of(trial.name), self.run_s()
        if len(runs) > 1:
            return runs[-1].wall_ns * 1e-9
        first_s = runs[0].wall_ns * 1e-9 if runs else plain_s + trial.start_s
        return first_s if first_s <= plain_s or not trial.start_s else plain_s + _WARM_PART * (first_s - plain_s)

    def _proof_s(self, trials: Sequence[Trial]) -> float:
        """Return how long two turns of a proof take (s), which start as slowly as the slowest of the set."""
        return 2 * (self.run_s() + max(self.again_s(trial) for trial in trials))

    def _turn(self, live: Sequence[Trial], turn: int) -> None:
        sides = [(BASELINE, ProgramSide()), *((trial.name, trial.side) for trial in live)]
        for name, side in sides if turn % 2 == 0 else sides[::-1]:
            if name == BASELINE:
                self.run(name, side, turn)
            else:
                self.run(name, side, turn, timeout_s=self._timeout_s())

    def _timeout_s(self) -> float:
        longest_s = max(_LEAST_TIMEOUT_S, _TIMES_AS_LONG * self.run_s())
        # One that takes all of the budget is ended, and costs the others only this run.
        return min(self.program.timeout_s, longest_s, max(2 * self.run_s(), self.left_s() - 2 * self.run_s(), 5.0))

    def _ratio(self, name: str, other: str = BASELINE) -> float:
        """Return the median ratio of the step times of two sides, over the turns that both have."""
        old = {run.turn: np.median(run.times_ns) for run in self.of(other) if run.status == OK}
        new = {run.turn: np.median(run.times_ns) for run in self.of(name) if run.status == OK}
        ratios = [float(new[turn] / old[turn]) for turn in new if turn in old]
        return float(np.median(ratios)) if ratios else float("inf")

    def _goes_on(self, trial: Trial, turn: int) -> bool:
        """Return whether a trial is worth another turn, and note why it is not."""
        run = self.of(trial.name)[-1]
        effect = _effect_of(run, trial.side)
        ratio = self._ratio(trial.name)
        if run.status != OK:
            self.lost[trial.name] = _why_failed(run)
        elif effect is not None and not effect.took_effect:
            self.lost[trial.name] = f"no effect: {effect.evidence}"
        elif ratio > (_SLOWER_AT_ONCE if turn == 0 else _SLOWER_TWICE):
            turns = count_of(turn + 1, "turn")
            self.lost[trial.name] = f"given up after {turns}: a step took {100 * ratio:.1f} % of the time"
            self._slower.add(trial.name)
        return trial.name not in self.lost

    def _judge(self, trial: Trial) -> Tried:
        comparison = self.compare(trial.name, trial.side, trial.precision)
        runs = self.of(trial.name)
        effect = _effect_of(runs[-1], trial.side)
        lost, values = self.lost.get(trial.name, ""), comparison.values
        if not lost and values is not None and values.verdict == "different":
            lost = f"other values than its precision explains: {values.reason or f'{values.largest_pct:.2g} %'}"
        return Tried(trial, comparison, effect, lost, len(runs), self.pays_after(trial.name), self._ratio(trial.name))

    def compare(self, name: str, side: ProgramSide, precision: str, first_turn: int = 0) -> ProgramComparison:
        """Return the comparison of a side with the program as it is, over the turns that both have from one on."""
        turns = {run.turn for run in self.of(name) if run.turn >= first_turn}
        old = [run for run in self.of(BASELINE) if run.turn in turns]
        new = [run for run in self.of(name) if run.turn in turns]
        runs = [
            msgspec.structs.replace(run, side=label)
            for label, mine in ((BASELINE, old), (CANDIDATE, new)) for run in mine
        ]  # fmt: skip
        request = self._request(side)
        comparison = conclude(runs, request, ())
        if request.value_pattern:
            return comparison
        return replace(comparison, values=self._compare_values(self.of(BASELINE), new, precision or "same"))

    def _compare_values(self, old: list[TimedRun], new: list[TimedRun], precision: str) -> ValueComparison:
        other = next(iter(self.of(_OTHER)), None)
        if other is None and needs_other_seed(old, precision) and self.left_s() > 2 * self.run_s():
            other = self.run(_OTHER, ProgramSide(), 0, seed=_OTHER_SEED)
        values = compare_samples(old, new, precision, other)
        rounding = rounding_of(values, precision)
        if not rounding or (self._known(rounding, 0) is None and self.left_s() <= 2 * self.run_s()):
            return values
        return compare_samples(old, new, precision, other, self.run(rounding, ProgramSide(remedies=(rounding,)), 0))

    def pays_after(self, name: str) -> int | None:
        """Return after how many steps a longer start is paid for; None where it is not longer, or nothing is saved."""
        old, new = (
            [run for run in self.of(side) if run.status == OK and len(run.times_ns) > 1] for side in (BASELINE, name)
        )
        if not old or not new:
            return None
        start = max(_start_ns(run) for run in new) - float(np.median([_start_ns(run) for run in old]))
        saved = float(np.median([np.median(run.times_ns) for run in old]))
        saved -= float(np.median([np.median(run.times_ns) for run in new]))
        return None if start <= 0 or saved <= 0 else int(np.ceil(start / saved))

    def combine(self, tried: Sequence[Tried]) -> list[Trial]:
        """Return the winners that help together: from the best on, each joins that makes the set faster.

        Where the budget has no time for that, all that are left are tried at once. What gained nothing alone, but
        does something else with a remedy of the set, is tried on top.
        """
        promising = sorted((item for item in tried if item.is_promising), key=lambda item: item.ratio)
        left: list[Trial] = []
        for item in promising:
            if not any(item.trial.kind and item.trial.kind == trial.kind for trial in left):
                left.append(item.trial)
        others = [item.trial for item in tried if not item.is_promising and self._is_sound(item)]
        chosen, left = left[:1], left[1:]
        for trial in self._on_top:
            chosen = self._tried_on_top(chosen, trial)
        while chosen:
            kinds = {trial.kind for trial in chosen}
            again = [trial for trial in others if kinds & {*trial.after} and trial.kind not in kinds and not left]
            each_s = max((self.again_s(trial) for trial in (*chosen, *left, *again)), default=0.0)
            spare_s = self.left_s() - self._proof_s([*chosen, *left, *again])
            if not (left or again) or spare_s < each_s:
                # What starts so slowly that no time is left for a proof with it stays out.
                slowest = max(left, key=self.again_s, default=None)
                if slowest is None or self.again_s(slowest) <= self.again_s(chosen[0]):
                    break
                left.remove(slowest)
                continue
            group = left if left and spare_s < each_s * len(left) else (left or again)[:1]
            left, others = ([trial for trial in rest if trial not in group] for rest in (left, others))
            if self._ratio_together(chosen, group) <= _JOINS_BELOW:
                chosen = [*chosen, *group]
        return chosen

    def _ratio_together(self, chosen: Sequence[Trial], group: Sequence[Trial]) -> float:
        """Run a set with more remedies, and return the ratio of its step time to the set's."""
        together = [*chosen, *group]
        turn, self._next_turn = self._next_turn, self._next_turn + 1
        self.run(name_of(together), side_of(together), turn, timeout_s=self._timeout_s())
        return self._last_ratio(name_of(together), name_of(chosen) if chosen else BASELINE)

    def _tried_on_top(self, chosen: list[Trial], trial: Trial) -> list[Trial]:
        """Run a set with what starts slowly, say what came of it, and return the set that is faster."""
        ratio = self._ratio_together(chosen, [trial])
        run = self.of(name_of([*chosen, trial]))[-1]
        effect = _effect_of(run, trial.side)
        beside = f"tried only together with {name_of(chosen)}" if chosen else "tried once"
        if run.status != OK:
            said = _why_failed(run)
        elif effect is not None and not effect.took_effect:
            ratio, said = float("inf"), f"no effect: {effect.evidence}"
        else:
            said = f"a step took {100 * ratio:.1f} % of the time without it"
        self.told_on_top[trial.name] = f"{beside}, since the budget had no time for more: {said}"
        return [*chosen, trial] if ratio <= _JOINS_BELOW else chosen

    def _is_sound(self, item: Tried) -> bool:
        """Return whether nothing but its time speaks against a remedy."""
        return not item.lost or item.trial.name in self._slower

    def _last_ratio(self, name: str, other: str) -> float:
        """Return the ratio of the step times of the last runs of two sides."""
        new, old = self.of(name)[-1:], self.of(other)[-1:]
        if not new or not old or new[0].status != OK or old[0].status != OK:
            return float("inf")
        return float(np.median(new[0].times_ns) / np.median(old[0].times_ns))

    def prove(self, trials: Sequence[Trial]) -> tuple[ProgramComparison, int | None] | None:
        """Run the set in turns with the program once more; None where the budget has not even time for one turn.

        It takes two turns at least, so that the second may end after the budget: an answer is worth that.
        """
        name, side = name_of(trials), side_of(trials)
        first, turn_s = self._next_turn, self.run_s() + self.run_s(name)
        for number in range(max(2, self.processes)):
            if number != 1 and self.left_s() < turn_s and not self._known(name, first + number):
                break
            sides = [(BASELINE, ProgramSide()), (name, side)]
            for label, setting in sides if number % 2 == 0 else sides[::-1]:
                self.run(label, setting, first + number, timeout_s=self._timeout_s())
        self._next_turn = first + self.processes
        if len([run for run in self.of(name) if run.turn >= first]) < 2:
            return None
        return self.compare(name, side, precision_of(trials), first), self.pays_after(name)


def name_of(trials: Sequence[Trial]) -> str:
    """Return the name of a set of trials."""
    return " + ".join(trial.name for trial in trials)


def side_of(trials: Sequence[Trial]) -> ProgramSide:
    """Return how the program is run with all of them."""
    side = ProgramSide()
    for trial in trials:
        side = side.joined(trial.side)
    return side


def precision_of(trials: Sequence[Trial]) -> str:
    """Return the lowest precision of a set."""
    return max((trial.precision or "same" for trial in trials), key=_ORDER.index)


def _effect_of(run: TimedRun, side: ProgramSide) -> RemedyEffect | None:
    """Return whether the remedies of a side took effect in a run; None where nothing tells it."""
    if side.remedies:
        if run.traits is None:
            return RemedyEffect(side.remedies[0], False, "no process of the program imported torch and ended by itself")
        return next((effect for effect in run.effects if effect.name == side.remedies[0]), None)
    variables = dict(side.variables)
    if run.traits is None:
        return None
    if "expandable_segments:True" in " ".join(variables.values()) and run.traits.expandable is not None:
        text = "segments of the allocator are " + ("" if run.traits.expandable else "not ") + "expandable"
        return RemedyEffect("expandable segments", run.traits.expandable, text)
    wanted = variables.get("DIFFUSERS_ATTN_BACKEND")
    if wanted is not None:
        active = run.traits.attention_backend
        return RemedyEffect("diffusers", active == wanted, f"diffusers takes {active or 'no backend'}")
    return None


def _why_failed(run: TimedRun) -> str:
    """Return why a run with a remedy failed, for people."""
    if run.status == TIMED_OUT:
        return f"it {run.reason}, far longer than the program as it is"
    memory = "out of memory" in run.reason.lower() or "OutOfMemory" in run.reason
    if memory or run.exit_code == -9:
        return f"it needs more memory than there is: it {run.reason}"
    return f"the program fails with it: it {run.reason}" if run.status == FAILED else run.reason


def _start_ns(run: TimedRun) -> int:
    return run.wall_ns - sum(run.times_ns)
