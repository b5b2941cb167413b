#!/usr/bin/env python3
"""Send the programs of the study of `optimize` through it on this GPU, and keep what it found.

    scripts/prove_optimize.py OUT                          all of them, one after the other
    scripts/prove_optimize.py OUT --only llama-sdpa,dit    some of them
    scripts/prove_optimize.py OUT --budget 120             seconds for each (default 180)
    scripts/prove_optimize.py OUT --by-hand                what pages advise, done by hand
    scripts/prove_optimize.py OUT --public                 models of public libraries, as they are
    scripts/prove_optimize.py OUT --public --by-hand       changed by hand, by somebody who knows what helps

OUT/NAME holds optimize.json and report.md of each program, and tuning.csv where shapes were tuned, with paths relative
to OUT/work/NAME, the whole folder. A program whose page is there is left out, so that a run that was ended can be
continued. Copy the folders to analysis/h200-optimize, then scripts/write_studies.py makes the page. Needs a GPU and
nsys; some programs need transformers.

With --by-hand a program runs in turn as it is and with the advice of its page, which it follows where a variable is
set. OUT/by-hand/NAME.json is the comparison (analysis/h200-optimize/by-hand). NAME-findings.json beside it has what the
advice promised: the findings.json of the capture. For models of public libraries it has, for each set of changes, the
time of a step that the program itself measured (us), of two processes for the program as it is and for the best set.
OUT/public.json has what both reached (analysis/h200-optimize/public.json).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS: dict[str, tuple[str, ...]] = {
    "llama-eager": ("llama_training.py", "eager"),
    "llama-sdpa": ("llama_training.py", "sdpa"),
    "gemma": ("gemma_training.py",),
    "vit": ("vit_training.py", "25"),
    "unet": ("unet_attention.py", "25"),
    "dit": ("dit_block.py",),
    "padded-encoder": ("padded_encoder.py",),
    "decode": ("gqa_decode.py",),
    "window": ("window_attention.py",),
    "fixed-bias": ("window_attention.py", "--fixed-bias"),
    "compiled": ("compiled_gpt.py",),
    "fp32": ("compiled_gpt.py", "--fp32", "--eager"),
    "growing": ("growing_length.py",),
}
# Models of libraries that were not made for this; they need transformers and torchvision.
# The sets of changes (public_models.py, BY_HAND) of which the fastest is what can be reached by hand.
CHANGES = {
    "bert": ("tf32,fused", "tf32,fused,compile"),
    "resnet50": ("tf32,channels_last,benchmark,fused", "tf32,channels_last,benchmark,fused,compile"),
    "lstm": ("tf32", "tf32,fused"),
    "vit": ("tf32,fused", "tf32,fused,compile"),
    "gpt2": ("tf32", "compile", "graphs"),
    "gpt2-static": ("tf32",),
    "gpt2-train": ("tf32,fused", "tf32,fused,compile"),
    "resnet-infer": ("tf32,channels_last,benchmark", "tf32,channels_last,benchmark,compile"),
    "unet": ("tf32,channels_last,benchmark", "tf32,channels_last,benchmark,graphs"),
    "dit": ("tf32,fused", "tf32,fused,compile"),
    "recommender": ("fused", "tf32,fused,compile"),
    "graph": ("tf32,fused", "tf32,fused,compile"),
    "process": ("tf32", "fused"),
}
PUBLIC: dict[str, tuple[str, ...]] = {f"public-{name}": ("public_models.py", name) for name in CHANGES}
# The settings with which a program follows the advice of its page.
BY_HAND = {"window": "CONTIGUOUS_MASK=1"}
KEPT = {"optimize.json": "optimize.json", "report.md": "report.md", "tune/search/results.csv": "tuning.csv"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", help="names of programs, with commas")
    parser.add_argument("--budget", type=float, default=180, help="seconds for each program (default 180)")
    parser.add_argument("--processes", type=int, default=3, help="turns of each attempt (default 3)")
    parser.add_argument("--by-hand", action="store_true", help="measure what the pages advise to change by hand")
    parser.add_argument("--public", action="store_true", help="the models of public libraries")
    arguments = parser.parse_args()
    if arguments.only is None:
        arguments.only = ",".join(PUBLIC if arguments.public else BY_HAND if arguments.by_hand else PROGRAMS)
    names = arguments.only.split(",")
    unknown = sorted({*names} - {*PROGRAMS, *PUBLIC})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    without = sorted({*names} - {*BY_HAND, *PUBLIC})
    if arguments.by_hand and without:
        parser.error(f"nothing is done by hand in {', '.join(without)}; only in {', '.join((*BY_HAND, *PUBLIC))}")
    prove = _prove_by_hand if arguments.by_hand else _prove
    failed = [name for name in names if not prove(name, arguments.out.resolve(), arguments.budget, arguments.processes)]
    for name in names:
        _print_answer(name, arguments.out.resolve())
    if arguments.public:
        _join_public(arguments.out.resolve())
    print(f"failed: {', '.join(failed)}" if failed else "all programs have their results")
    return 1 if failed else 0


def _value_options(program: str) -> list[str]:
    """Return the options that compare the loss of both sides, where the program prints one."""
    if program == "public_models.py":  # whose values are sampled
        return []
    text = (ROOT / "scripts/programs" / program).read_text(encoding="utf-8")
    return ["--value-pattern", r"loss ([-+.\deE]+)"] if "loss" in text else []


def _prove_by_hand(name: str, out: Path, budget_s: float, processes: int) -> bool:
    """Run a program in turn as it is and with the advice of its page, and return whether both sides ran."""
    del budget_s  # the number of turns says how long it takes
    if name in PUBLIC:
        return _time_by_hand(name, out)
    work, (program, *options) = out / "work" / f"{name}-by-hand", PROGRAMS[name]
    print(f"== {name}, by hand", flush=True)
    command = [
        sys.executable, "-m", "nsysprof", "bench", "--candidate", BY_HAND[name], "--processes", str(processes),
        *_value_options(program), "--out", str(work), *(["--resume"] if work.is_dir() else []),
        "--", sys.executable, f"scripts/programs/{program}", *options,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode or not (work / "comparison.json").is_file():
        return False
    (out / "by-hand").mkdir(parents=True, exist_ok=True)
    (out / "by-hand" / f"{name}.json").write_bytes((work / "comparison.json").read_bytes())
    return True


def _time_by_hand(name: str, out: Path) -> bool:
    """Time a public program as it is and with each set of changes, and then as it is and with the best one again."""
    model = PUBLIC[name][-1]
    steps_us: dict[str, list[float]] = {}

    def run(changes: str) -> None:
        command = [sys.executable, "scripts/programs/public_models.py", model]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "BY_HAND": changes}, capture_output=True, text=True, check=False
        )
        found = re.search(r"a step takes ([\d.]+) us", done.stdout)
        print(f"== {name}, by hand: {changes or 'as it is'}: {found[0] if found else done.stderr[-300:]}", flush=True)
        if found:
            steps_us.setdefault(changes, []).append(float(found[1]))

    for changes in ("", *CHANGES[model]):
        run(changes)
    if "" not in steps_us:
        return False
    for changes in ("", min(steps_us, key=lambda name: steps_us[name][0])):
        run(changes)
    (out / "by-hand").mkdir(parents=True, exist_ok=True)
    (out / "by-hand" / f"{name}.json").write_text(json.dumps(steps_us, indent=1) + "\n", encoding="utf-8")
    return True


def _print_answer(name: str, out: Path) -> None:
    """Print what was proven of one program, and each attempt with its ratio, in a few lines."""
    path = out / name / "optimize.json"
    if not path.is_file():
        return
    data = json.loads(path.read_text(encoding="utf-8"))
    proven = data.get("proven")
    print(f"{name}: {data['answer']}", None if proven is None else (proven["names"], _ratios(proven)), sep="; ")
    for attempt in data["attempts"]:
        values = (attempt["comparison"]["values"] or {}).get("verdict")
        print(f"    {attempt['name']}: {_ratios(attempt)}, values {values}, {attempt['lost'] or attempt['evidence']}")
    print("    not tried:", "; ".join(f"{item['name']} ({item['reason']})" for item in data["not_tried"]))


def _join_public(out: Path) -> None:
    """Write OUT/public.json: what was reached by hand and by optimize, of each program that has both."""
    both: dict[str, Any] = {}
    for name, (_, model) in PUBLIC.items():
        page, by_hand = out / name / "optimize.json", out / "by-hand" / f"{name}.json"
        if page.is_file() and by_hand.is_file():
            found = json.loads(page.read_text(encoding="utf-8"))
            proven = found["proven"] or {"names": [], "comparison": {"change": {"ratio": 1.0, "low": 1.0, "high": 1.0}}}
            change = {key: proven["comparison"]["change"][key] for key in ("ratio", "low", "high")}
            both[model] = {
                "seconds": round(sum(step["seconds"] for step in found["steps"])),
                "steps_us": json.loads(by_hand.read_text(encoding="utf-8")),
                "names": proven["names"],
                **change,
            }
    (out / "public.json").write_text(json.dumps(both, indent=1) + "\n", encoding="utf-8")


def _ratios(found: dict[str, Any]) -> str:
    change = found["comparison"]["change"]
    return ", ".join("-" if change[key] is None else f"{change[key]:.3f}" for key in ("ratio", "low", "high"))


def _prove(name: str, out: Path, budget_s: float, processes: int) -> bool:
    """Optimize one program, keep its files, and return whether it has a page."""
    if (out / name / "report.md").is_file():
        return True
    work, (program, *options) = out / "work" / name, {**PROGRAMS, **PUBLIC}[name]
    print(f"== {name}", flush=True)
    command = [
        sys.executable, "-m", "nsysprof", "optimize", "--budget", f"{budget_s:g}", "--processes", str(processes),
        *_value_options(program), "--out", str(work), *(["--resume"] if work.is_dir() else []),
        "--", sys.executable, f"scripts/programs/{program}", *options,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode or not (work / "report.md").is_file():
        return False
    (out / name).mkdir(parents=True, exist_ok=True)
    for source, target in KEPT.items():
        if (work / source).is_file():
            text = (work / source).read_text(encoding="utf-8").replace(f"{work}/", "")
            (out / name / target).write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
