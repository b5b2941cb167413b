"""Fill the study of `nsysprof optimize` on real programs."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pandas as pd

from nsysprof.analysis.attention_tuning.program_gain import judge_optimization
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.program import WORTH_TELLING, optimize_report
from nsysprof.results.program_runs import UNDECIDED, Optimization
from scripts.benches.hook_cost import longer_pct, mean_of_all, text_of_all, text_of_each
from scripts.studies.tables import ANALYSIS, markdown, span

FOLDER = ANALYSIS / "h200-optimize"
# Each folder is one program of scripts/programs.
PROGRAMS = {
    "llama-eager": 'Llama of transformers, training, `attn_implementation="eager"`',
    "llama-sdpa": "the same with `sdpa`",
    "gemma": "Gemma of transformers, training: heads of 256, one head of k and v",
    "vit": "ViT, training under autocast: 197 tokens",
    "unet": "diffusion U-Net, sampling: heads of 40, 80 and 160, cross-attention to 77 tokens",
    "dit": "diffusion transformer, training: 1025 tokens, cross-attention to 77",
    "padded-encoder": "encoder with padding masks, training",
    "decode": "decoding with grouped heads and a KV cache that grows",
    "window": "Swin blocks, training: windows of 49 tokens, a learned bias",
    "fixed-bias": "the same with a bias that falls with the distance and is not learned",
    "compiled": "GPT under torch.compile, training",
    "fp32": "GPT in plain fp32, training",
    "growing": "GPT, training: sequences that grow at every step",
}

# What the hook of --attention is to cost a launch-bound program at most (percent).
HOOK_AIM_PCT = 2

# What the pages of programs advise that was then done by hand, as code.
BY_HAND = {"window": "`attn_mask.contiguous()`"}


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    found = {name: json.loads((FOLDER / name / "optimize.json").read_bytes()) for name in _names()}
    beaten = [name for name, data in found.items() if any(_is_better_policy(attempt) for attempt in data["attempts"])]
    by_else = [
        name
        for name, data in found.items()
        if any(attempt["is_better"] and attempt["name"] != "the policy" for attempt in data["attempts"])
    ]
    open_ones, settled = _promising(found)
    head = ("program", "attention, % of kernels' time", "torch chose", "next backend", "page")
    gains = (
        "program",
        "what was tried",
        "predicted gain, %",
        "measured gain, % [95 %]",
        "verdict",
        "peak memory",
        "values",
    )
    return {
        "programs": str(len(found)),
        "beaten": str(len(beaten)) + (f" ({', '.join(f'`{name}`' for name in beaten)})" if beaten else ""),
        "chosen": _chosen(found),
        "less_memory": _less_memory(found),
        "by_else": str(len(by_else)),
        "cudnn": str(sum(_ran(data) == ["cudnn"] for data in found.values())),
        "shapes": str(sum(_searched(name) for name in found)),
        "attention": markdown(head, "lrllr", [_attention(name, data) for name, data in found.items()]),
        "gains": markdown(gains, "llrrlll", [row for name, data in found.items() for row in _attempts(name, data)]),
        "seconds": markdown(
            ("program", "in all, s", "capture", "tune", "runs of the program"),
            "lrrrr",
            [_seconds(name, data) for name, data in found.items()],
        ),
        "lead": str(WORTH_TELLING),
        "won": str(sum(each["in_policy"] for data in found.values() for each in data["tuned"])),
        "promising": open_ones,
        "sampled": settled,
        "by_hand": _by_hand(),
        "public": _public(),
        "hook": _hook(),
        "hook_aim": str(HOOK_AIM_PCT),
        "hook_below": _hook_below(),
        "own_hook": _own_hook(),
    }


def pages() -> dict[Path, str]:
    """Return the page of each program by its path, judged and written anew from what its search found."""
    found = {}
    for name in _names():
        data = json.loads((FOLDER / name / "optimize.json").read_bytes())
        optimization = judge_optimization(msgspec.convert(data, Optimization))
        found[FOLDER / name / "report.md"] = render_markdown(optimize_report(optimization))
    return found


def _chosen(found: dict[str, dict[str, Any]]) -> str:
    """Return why a program is among them whose attention is not the usual one, once it was measured."""
    if "fixed-bias" not in found:
        return ""
    ran = " and ".join(_ran(found["fixed-bias"]))
    return (
        " `fixed-bias` is among them because torch's own choice is slow for its attention, windows of 49 tokens with a "
        f"mask that needs no gradient: torch takes {ran}, and {_next('fixed-bias')}."
    )


def _less_memory(found: dict[str, dict[str, Any]]) -> str:
    """Return which programs need less memory with something that was tried, at a time that is not shown to be worse."""
    names = [
        f"`{name}` with {attempt['name']}"
        for name, data in found.items()
        for attempt in data["attempts"]
        if attempt.get("saves_memory")
    ]
    return f" Less memory, at a time that is not shown to be worse: {', '.join(names)}." if names else ""


def _is_better_policy(attempt: dict[str, Any]) -> bool:
    return bool(attempt["name"] == "the policy" and attempt["is_better"])


def _names() -> list[str]:
    return [name for name in PROGRAMS if (FOLDER / name / "optimize.json").is_file()]


def _attention(name: str, data: dict[str, Any]) -> tuple[str, ...]:
    share = data["attention_share_pct"]
    ran = _ran(data)
    link = f"[{name}]({name}/report.md)"
    return PROGRAMS[name], "–" if share is None else f"{share:.1f}", ", ".join(ran) or "–", _next(name), link


def _ran(data: dict[str, Any]) -> list[str]:
    """Return the backends that attention of the program took."""
    return sorted({use["backend_ran"] for use in data["uses"] if use["backend_ran"]})


def _next(name: str) -> str:
    """Return the fastest backend that is not torch's choice, for the shape that takes the most time."""
    path = FOLDER / name / "tuning.csv"
    if not path.is_file():
        return "not tuned"
    table = pd.read_csv(path)
    shape = [column for column in ("batch", "heads", "seq", "kv_seq", "head_dim", "pass") if column in table]
    groups = [group for _, group in table.groupby(shape, sort=False, dropna=False)]
    first = max(groups, key=lambda group: float(group["median_ns"].max()))
    auto = float(first.loc[first["backend"] == "auto", "median_ns"].iloc[0])
    others = first[first["median_ns"].notna() & (first["median_ns"] > 1.03 * auto)].sort_values("median_ns")
    faster = first[first["median_ns"] < 0.97 * auto].sort_values("median_ns")
    if len(faster):
        return f"{faster.iloc[0]['backend']} takes {faster.iloc[0]['median_ns'] / auto:.2f} of the time"
    if not len(others):
        return "none ran"
    return f"{others.iloc[0]['backend']} takes {others.iloc[0]['median_ns'] / auto:.2f} times as long"


def _searched(name: str) -> int:
    path = FOLDER / name / "tuning.csv"
    return int((pd.read_csv(path)["backend"] == "auto").sum()) if path.is_file() else 0


def _attempts(name: str, data: dict[str, Any]) -> list[tuple[str, ...]]:
    if not data["attempts"]:
        undecided = sum(each["why"] == UNDECIDED for each in data["tuned"])
        if undecided:
            shapes = f"{undecided} of {len(data['tuned'])} shapes"
            return [(name, f"nothing: no other backend was shown to be faster, {shapes} are undecided", *["–"] * 5)]
        return [(name, "nothing: no other backend is faster", "0", "–", "–", "–", "–")]
    return [_attempt(name, attempt) for attempt in data["attempts"]]


def _attempt(name: str, attempt: dict[str, Any]) -> tuple[str, ...]:
    comparison, expected = attempt["comparison"], attempt["predicted"]
    change, values = comparison["change"], comparison["values"]
    low, mid, high = (100 * (1 - change[key]) for key in ("high", "ratio", "low"))
    peaks = [side["peak_bytes"] / 2**30 for side in (comparison["baseline"], comparison["candidate"])]
    predicted = "–"
    if expected is not None:
        predicted = f"{expected['pct']:.1f} [{expected['low_pct']:.1f}, {expected['high_pct']:.1f}]"
    told = "–" if values is None else values["verdict"]
    if values is not None and values["largest_pct"] is not None:
        told += f", within {values['largest_pct']:.2g} %"
    measured = f"{mid:.1f} [{low:.1f}, {high:.1f}]"
    memory = f"{peaks[0]:.2f} to {peaks[1]:.2f} GiB"
    for each in comparison.get("memory", ()):
        if each["kind"] == "reserved":
            sides = (each["baseline_bytes"], each["candidate_bytes"])
            old, new = (span((size / 2**30 for size in side), 2) for side in sides)
            memory += f"; reserved {_once(old)} GiB against {_once(new)} GiB in every run"
    return name, attempt["name"], predicted, measured, change["verdict"], memory, told


def _by_hand() -> str:
    """Return a table of what pages advise to change by hand: what was promised, and what it gave."""
    rows = []
    for path in sorted((FOLDER / "by-hand").glob("*.json")):
        if path.stem.endswith("-findings"):
            continue
        comparison = json.loads(path.read_bytes())
        promised, measured = _promised(path), comparison["change"]
        low, mid, high = (100 * (1 - measured[key]) for key in ("high", "ratio", "low"))
        peaks = " to ".join(
            f"{comparison[side]['peak_bytes'] / 2**30:.2f}" for side in ("baseline", "candidate")
        )  # fmt: skip
        rows.append(
            (
                path.stem,
                BY_HAND[path.stem],
                f"{promised['pct']:.1f} [{promised['low_pct']:.1f}, {promised['high_pct']:.1f}]",
                f"{mid:.1f} [{low:.1f}, {high:.1f}]",
                measured["verdict"],
                f"{comparison['baseline']['runs']}",
                f"{peaks} GiB",
                "–" if comparison["values"] is None else comparison["values"]["verdict"],
            )
        )
    head = (
        "program", "the change", "predicted gain, %", "measured gain, % [95 %]", "verdict", "turns", "peak memory",
        "values",
    )  # fmt: skip
    return markdown(head, "llrrlrll", rows) if rows else "No advice was tested yet."


def _public() -> str:
    """Return a table of models of public libraries: what was reached by hand, and what `optimize` proved."""
    rows = []
    for name, found in json.loads((FOLDER / "public.json").read_bytes()).items():
        means_us = {changes: sum(times_us) / len(times_us) for changes, times_us in found["steps_us"].items()}
        as_it_is_us, best = means_us.pop(""), min(means_us, key=lambda changes: means_us[changes])
        by_hand_pct = 100 * (1 - means_us[best] / as_it_is_us)
        low, gain, high = (100 * (1 - found[key]) for key in ("high", "ratio", "low"))
        rows.append(
            (
                name, f"{as_it_is_us / 1000:.1f}", best.replace(",", ", "), f"{by_hand_pct:.1f}",
                ", ".join(found["names"]) or "nothing", f"{gain:.1f} [{low:.1f}, {high:.1f}]",
                f"{100 * gain / by_hand_pct:.0f}", f"{found['seconds']}",
            )
        )  # fmt: skip
    head = (
        "program", "a step, ms", "best changes by hand", "gain, %", "optimize proved", "gain, % [95 %]",
        "of the best, %", "took, s",
    )  # fmt: skip
    return markdown(head, "lrlrlrrr", rows)


def _promised(path: Path) -> dict[str, float]:
    """Return what the first finding of the program's capture promised (percent of a step)."""
    found = json.loads(path.with_name(f"{path.stem}-findings.json").read_bytes())
    first, step_ns = found["findings"][0], found["step_ns"]
    saved = {"pct": "saving_ns", "low_pct": "saving_low_ns", "high_pct": "saving_high_ns"}
    return {name: 100.0 * first[key] / step_ns for name, key in saved.items()}


def _once(text: str) -> str:
    """Return a span, or its only value."""
    least, _, most = text.partition(" to ")
    return least if least == most else text


def _promising(found: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """Return the undecided shapes for which torch's own choice took much longer than another backend.

    Those whose search ended with the budget come first, then those that have all samples of a search.
    """
    told: tuple[list[str], list[str]] = ([], [])
    for name, data in found.items():
        for use in msgspec.convert(data, Optimization).tuned:
            if use.why == UNDECIDED and (use.over_auto or 0) >= WORTH_TELLING:
                launching = (
                    "" if use.launch_share is None else f", of which {100 * use.launch_share:.0f} % is launching"
                )
                share = f"{use.share_pct:.1f} % of its kernels' time"
                text = f"`{name}` (S={use.shape.seq}, {share}, {use.over_auto:.2f} times"
                told[use.search_ended].append(f"{text}{launching})")
    return ", ".join(told[0]) or "none", ", ".join(told[1]) or "none"


def _seconds(name: str, data: dict[str, Any]) -> tuple[str, ...]:
    def of(*starts: str) -> str:
        return f"{sum(step['seconds'] for step in data['steps'] if step['name'].startswith(starts)):.0f}"

    return name, of(""), of("capture"), of("tune"), of("try")


def _hook() -> str:
    """Return a table of what the hook cost small programs, or that it is not measured yet."""
    rows = []
    for path in sorted(FOLDER.glob("hook-*.json")):
        for each in json.loads(Path(path).read_bytes()):
            processes = each["processes"]
            found = [longer_pct(process) for process in processes]
            step_us = 1e6 * median(process["step_s"] for process in processes)
            by = "nsys" if each["profiler"] else "none"
            cells = f"{step_us:.0f}", text_of_all(found), text_of_each(found), _said(processes)
            rows.append((each["program"], by, *cells))
    head = (
        "program", "profiler", "a step, us", "longer with the hook, % [95 %]", "each process, %",
        "the hook's own figure, %",
    )  # fmt: skip
    return markdown(head, "llrrrr", rows) if rows else "It was not measured in this study."


def _said(processes: list[dict[str, Any]]) -> str:
    """Return the hook's own figure: its bounds, where it has two (percent)."""
    bounds = [median(each[key] for each in processes) for key in ("said_pct", "said_most_pct") if key in processes[0]]
    return " to ".join(f"{bound:.2f}" for bound in bounds)


def _hook_below() -> str:
    """Return for which programs the whole interval of the hook's cost is below what it aims at, and for which not."""
    below: dict[bool, list[str]] = {True: [], False: []}
    for path in sorted(FOLDER.glob("hook-*.json")):
        for each in json.loads(Path(path).read_bytes()):
            mean, half = mean_of_all([longer_pct(process) for process in each["processes"]])
            below[mean + half < HOOK_AIM_PCT].append(f"`{each['program']}`")
    reached, missed = (", ".join(below[is_below]) or "none" for is_below in (True, False))
    return f"The whole interval is below that for {reached}; it is not for {missed}"


def _own_hook() -> str:
    """Return what the hook says that it cost each program while it was recorded."""
    found = json.loads((FOLDER / "hook_of_programs.json").read_bytes())
    head = ("program", "calls", "the hook's own figure, %")
    rows = [(each["program"], str(each["calls"]), f"{100 * each['own_ns'] / each['wall_ns']:.2f}") for each in found]
    return markdown(head, "lrr", rows)
