"""Fill the study of attention as it is served on an H200: five models, decode and prefill, over every backend."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from nsysprof.report.document import join_names
from nsysprof.units import format_ns, format_ratio
from scripts.studies.tables import ANALYSIS, machine, markdown

FOLDER = ANALYSIS / "h200-serving"
_CASE = ["model", "phase"]
# How far a median may be from that of a loop that is written by hand.
_WITHIN = 0.03
_BEHIND = ("slower", "far behind")


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    environment = json.loads((FOLDER / "environment.json").read_text(encoding="utf-8"))
    results = pd.read_csv(FOLDER / "results.csv")
    ran = results[results["status"] == "ok"]
    return {
        **machine(environment),
        "shapes": str(len(results.groupby(_CASE))),
        "models": str(results["model"].nunique()),
        "winners": _winners(ran),
        "error": f"{ran[~ran['approximate']]['largest_error'].max():.1g}",
        "others": _others(results),
        "decode": _decode(ran),
        "approximate": _approximate(ran),
        **_flex(),
        **_hand(ran),
    }


def _rows(table: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    return [(key, own) for key, own in table.groupby(_CASE, sort=False)]  # type: ignore[misc]


def _winners(ran: pd.DataFrame) -> str:
    """Return the fastest backend of each shape, what ties with it, and how many times as long the others take."""
    rows = []
    for (model, phase), own in _rows(ran[ran["rank"].notna()]):
        ranked = own.sort_values("rank").to_dict("records")
        best, rest = ranked[0], ranked[1:]
        tied = [row["backend"] for row in rest if row["verdict"] == "tie" or _holds_one(row)]
        behind = [
            f"{row['backend']} {format_ratio(row['against_best'])}{'' if row['verdict'] in _BEHIND else '?'}"
            for row in rest
            if row["backend"] not in tied
        ]
        rows.append((model, phase, best["backend"], _time(best), join_names(tied) if tied else "", ", ".join(behind)))
    head = ("model", "phase", "fastest", "median [95 %]", "not told from it", "times as long")
    return markdown(head, "lllrll", rows)


def _holds_one(row: dict[Any, Any]) -> bool:
    """Return whether the interval of a case against the fastest one holds 1."""
    return bool(row["against_best_low"] <= 1 <= row["against_best_high"])


def _time(row: dict[Any, Any]) -> str:
    if row["low_ns"] != row["low_ns"]:
        return format_ns(row["median_ns"])
    return f"{format_ns(row['median_ns'])} [{format_ns(row['low_ns'])}, {format_ns(row['high_ns'])}]"


def _others(results: pd.DataFrame) -> str:
    """Return the backends that ran nowhere, with the reason that the first of them gave."""
    lines = []
    for backend, own in results.groupby("backend", sort=False):
        if not (own["status"] == "ok").any():
            reason = str(own["reason"].dropna().iloc[0]) if own["reason"].notna().any() else ""
            lines.append(f"- `{backend}`: {own['status'].iloc[0].replace('_', ' ')}. {reason}")
    return "\n".join(lines) or "Every backend ran at least one shape."


def _decode(ran: pd.DataFrame) -> str:
    """Return the share of the copy's rate that the fastest backend of each decode reaches, by least bytes."""
    rows = []
    for (model, _), own in _rows(ran[(ran["phase"] == "decode") & ran["rank"].notna()]):
        best = own.sort_values("rank").iloc[0]
        share = f"{best['measured_bytes_pct']:.0f} %"
        rows.append(
            (model, best["backend"], f"{best['least_bytes'] / 1e6:.1f} MB", f"{best['bytes_per_s'] / 1e12:.2f}", share)
        )
    return markdown(("model", "fastest", "least bytes", "TB/s", "of the copy here"), "llrrr", rows)


def _approximate(ran: pd.DataFrame) -> str:
    """Return the approximate cases beside the fastest exact one."""
    rows = [
        (
            row["model"],
            row["phase"],
            row["backend"],
            _time(row),
            format_ratio(row["against_best"]),
            f"{row['largest_error']:.2g}",
        )
        for row in ran[ran["approximate"]].to_dict("records")
        if row["against_best"] == row["against_best"]
    ]
    if not rows:
        return "No approximate backend ran."
    return markdown(("model", "phase", "backend", "median [95 %]", "of the fastest", "error"), "lllrrr", rows)


def _flex() -> dict[str, str]:
    """Return flex beside torch's own choice, from processes that measured both."""
    if not (FOLDER / "flex.csv").is_file():
        return {"flex": "Not measured."}
    table = pd.read_csv(FOLDER / "flex.csv")
    rows = []
    for (model, phase), own in _rows(table):
        found = {row["backend"]: row for row in own.to_dict("records") if row["status"] == "ok"}
        if "flex" not in found:
            reason = next((row["reason"] for row in own.to_dict("records") if row["backend"] == "flex"), "")
            rows.append((model, phase, "", "", str(reason)[:80]))
            continue
        ratio = found["flex"]["median_ns"] / found["auto"]["median_ns"] if "auto" in found else None
        rows.append(
            (
                model,
                phase,
                _time(found["flex"]),
                "" if ratio is None else format_ratio(ratio),
                f"{found['flex']['largest_error']:.1g}",
            )
        )
    return {"flex": markdown(("model", "phase", "flex", "of torch's own choice", "error"), "llrrr", rows)}


def _hand(ran: pd.DataFrame) -> dict[str, str]:
    """Return how the medians of the loop that is written by hand compare with those of bench."""
    hand = pd.read_csv(FOLDER / "hand.csv")
    both = hand.merge(ran, on=[*_CASE, "backend"], suffixes=("_hand", ""))
    ratio = both["median_ns"] / both["median_ns_hand"]
    apart = [
        f"{row['backend']} for the {row['phase']} of {row['model']} {format_ratio(row['ratio'])}"
        for row in both.assign(ratio=ratio).to_dict("records")
        if abs(row["ratio"] - 1) > _WITHIN
    ]
    return {
        "hand_cases": str(len(both)),
        "hand_median": format_ratio(float(ratio.median())),
        "hand_span": f"{format_ratio(float(ratio.min()))} to {format_ratio(float(ratio.max()))}",
        "hand_near": str(int(((ratio - 1).abs() <= _WITHIN).sum())),
        "hand_far": "; ".join(apart) or "none",
    }
