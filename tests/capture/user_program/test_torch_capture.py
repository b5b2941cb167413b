"""What becomes of the files that torch's profiler leaves in the processes of a program."""

import json
import sys

import pytest

from nsysprof.capture.folder import prepare_folder
from nsysprof.capture.manifest import read_manifest
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.record_program import Watchers
from nsysprof.capture.user_program.torch_capture import run_torch_capture
from nsysprof.errors import TraceError
from nsysprof.notes import Remarks
from nsysprof.results.checks import RecordingCheck

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")
# Stands for a program whose processes were recorded: torch itself takes seconds to start.
LEAVES = """\
import os, sys
folder = os.environ["NSYSPROF_TORCH_FOLDER"]
for name in sys.argv[1:]:
    open(os.path.join(folder, name), "w").write(os.environ["NSYSPROF_TORCH_SCHEDULE"])
if "NSYSPROF_ATTENTION_FOLDER" in os.environ:
    open(os.path.join(os.environ["NSYSPROF_ATTENTION_FOLDER"], "12.json"), "w").write("{}")
if os.environ.get("WITH_CONTEXT"):  # a thread of the name that the CUDA driver gives its own
    import ctypes, threading, time
    def wait():
        ctypes.CDLL(None).prctl(15, b"cuda00001800007", 0, 0, 0)
        time.sleep(60)
    threading.Thread(target=wait, daemon=True).start()
    time.sleep(1.0)
raise SystemExit(3)
"""


@pytest.fixture
def capture(tmp_path):
    def run(*names, merge=None, reason="", **numbers):
        folder = tmp_path / "capture"
        folder.mkdir()
        prepare_folder(folder)
        merged = []

        def write(files, target):
            merged.append((sorted(path.name for path in files), target.relative_to(folder).as_posix()))
            target.write_text("trace")
            return {path: 0 if path.name.startswith("9") else 5 for path in files}

        captured = run_torch_capture(
            ProgramPlan((sys.executable, "-c", LEAVES, *names), **numbers),
            folder,
            watchers=Watchers(None, None),
            say=lambda _text: None,
            merge=merge or write,
            inspect=lambda _path, _watched: RecordingCheck(Remarks((), ()), (), None, None, 0),
            instead_of_nsys=reason,
        )
        return captured, folder, merged

    return run


def test_each_process_with_work_has_a_trace_beside_that_of_all(capture):
    captured, folder, merged = capture("12.json", "13.json", "99.json", skip_steps=2, steps=4)
    assert captured.failure is None
    assert captured.ended.exit_code == 3
    assert captured.traces == (folder / "torch.sqlite",)
    assert merged == [
        (["12.json", "13.json", "99.json"], "torch.sqlite"),
        (["12.json"], "processes/torch-12.sqlite"),
        (["13.json"], "processes/torch-13.sqlite"),
    ]
    manifest = read_manifest(folder)
    assert (manifest.profiler, manifest.complete, manifest.missing) == ("torch", True, [])
    assert manifest.program.exit_code == 3
    assert not (folder / ".work").exists()


def test_one_process_and_why_nsys_did_not_record(capture):
    captured, folder, merged = capture("12.json", "13.json.part", reason="nsys was not found")
    assert merged == [(["12.json"], "torch.sqlite")]
    manifest = read_manifest(folder)
    assert [missing.value for missing in manifest.missing] == ["nsys"]
    said = {note.code: note.text for note in captured.manifest.notes}
    assert "nsys was not found" in said["torch-in-place-of-nsys"]
    assert "13" in said["torch-trace-cut"]


@pytest.mark.parametrize("numbers", [{}, {"steps": 4}])
def test_a_process_with_a_context_of_which_nothing_was_recorded_is_named(capture, monkeypatch, numbers):
    monkeypatch.setenv("WITH_CONTEXT", "yes")
    captured, _, _ = capture("12.json", **numbers)
    codes = [note.code for note in captured.manifest.notes]
    assert codes == ([] if numbers else ["process-lost"]), "with a schedule, not all was to be recorded"
    assert not captured.losses


def test_nothing_was_recorded(capture):
    captured, folder, _ = capture()
    assert "no process of the program left a trace" in captured.failure.text
    assert read_manifest(folder).complete is False


def test_what_cannot_be_converted_is_kept(capture):
    def fail(_files, _target):
        raise TraceError("It is damaged.", "Do it again.")

    captured, folder, _ = capture("12.json", merge=fail)
    assert captured.failure.text == "It is damaged."
    assert json.loads((folder / "logs" / "torch-12.json").read_text())["steps"] == 0


def test_the_hook_of_attention_leaves_its_calls_beside_the_trace(capture):
    captured, folder, _ = capture("12.json", attention=True)
    assert (folder / "nsys.attention-12.json").is_file()
    assert [note.code for note in captured.manifest.notes if "attention" in note.code] == ["no-attention"]
