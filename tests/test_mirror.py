"""The tests mirror the package path for path: a test file is named after the module it tests, and perhaps a topic."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nsysprof"
# Tests of several modules at once, and what they are about. Every other test file is named after the one that it tests.
ACROSS = {
    "analysis/test_parity.py": "every number against nsys stats",
    "analysis/comparison/test_recorded_comparisons.py": "real traces whose ratios and counts are known",
    "analysis/test_recorded_forms.py": "figures of programs whose source says every launch",
    "analysis/test_training_ranges.py": "what backward adopts in real trainings",
    "analysis/test_random_programs.py": "every number of traces whose truth is known",
    "analysis/test_compiled_analysis.py": "what compiled code says against what numpy says",
    "analysis/attribution/test_many_pairs.py": "as many pairs of ranges and launches as no program has",
    "capture/test_counted_gpu.py": "ncu over a grid",
    "capture/test_gpu.py": "a capture on a GPU",
    "cli/test_analyze_ranks.py": "analyze of many traces",
    "cli/test_commands.py": "what every command must have",
    "bundle/test_leaks.py": "secrets of every kind, planted everywhere",
    "cli/test_killed.py": "kills at random moments",
    "cli/test_main.py": "what all commands share",
    "cli/test_program.py": "a program with a real nsys, from recording to report",
    "cli/test_program_gpu.py": "a program on a GPU, from recording to report",
    "native/test_engines.py": "the same bytes, whichever loops run compiled",
    "files/test_special_files.py": "pipes and devices in hostile folders",
    "files/test_readers.py": "whoever reads result folders",
    "ranks/test_ranks.py": "many traces, from files to stragglers",
    "report/test_browser.py": "the page in a browser",
    "report/test_program_reports.py": "the report of each recorded program",
    "report/test_roofline.py": "one roofline in every format",
    "trace/test_connections.py": "one connection for each thread",
    "trace/test_damage.py": "damaged traces",
    "trace/test_file_order.py": "both readers, in the order of the file",
    "trace/test_fuzz.py": "damaged traces, made at random",
    "trace/test_generations.py": "exports of every nsys",
    "trace/test_hostile_files.py": "traces that are made to do harm",
    "trace/test_impossible_values.py": "values that no program can have caused",
    "trace/test_odd_files.py": "files that are hardly traces",
    "trace/test_readers_agree.py": "both readers, on damaged files",
    "workload/test_bench_gpu.py": "bench on a GPU",
}
TESTS = Path(__file__).parent


def is_named_after_a_module(test: Path) -> bool:
    """Return whether the name of a test file is that of a module beside its place, alone or with a topic behind it."""
    folder = PACKAGE / test.relative_to(TESTS).parent
    words = test.stem.removeprefix("test_").removesuffix("_gpu").split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any((folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists() for name in names)


def test_every_test_file_is_named_after_the_module_that_it_tests() -> None:
    wrong = [
        name
        for path in sorted(TESTS.glob("*/**/test_*.py"))
        if not is_named_after_a_module(path) and (name := path.relative_to(TESTS).as_posix()) not in ACROSS
    ]
    assert not wrong, f"name {wrong} after a module, or give each a line in ACROSS"


def test_the_list_of_tests_across_modules_is_true() -> None:
    assert [name for name in ACROSS if not (TESTS / name).exists()] == []
