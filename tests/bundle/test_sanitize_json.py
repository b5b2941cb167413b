"""Our own files: folders, user and host go, the rest stays as it was."""

from __future__ import annotations

from nsysprof.bundle.sanitize_json import sanitize_csv, sanitize_json
from nsysprof.bundle.secret_values import is_public

SECRETS = ["/home/alice/my project", "sesame-7f3a9b", "alice"]


def test_keys_paths_and_secrets() -> None:
    data = {
        "format_version": 1,
        "hostname": "wonderland",
        "environment": {"gpu_name": "NVIDIA H200", "user": "alice", "gpus": [{"uuid": "GPU-1", "index": 0}]},
        "loaded": {"/usr/lib/libcudnn.so.9": "9.1"},
        "text": "wrote /home/alice/my project/out/nsys.sqlite for alice",
        "share": 0.5,
        "nothing": None,
    }
    assert sanitize_json(data, SECRETS) == {
        "format_version": 1,
        "environment": {"gpu_name": "NVIDIA H200", "gpus": [{"index": 0}]},
        "loaded": {"libcudnn.so.9": "9.1"},
        "text": "wrote nsys.sqlite for <redacted>",
        "share": 0.5,
        "nothing": None,
    }


def test_command_lines_keep_names_and_lose_credentials() -> None:
    argv = ["/opt/nsys/bin/nsys", "profile", "-o", "/data/alice/run 1", "--out=/tmp/x/y.sqlite"]
    argv += ["--api-key", "k-123", "--hf-token=h-456", "--seq", "1024"]
    clean = sanitize_json({"steps": [{"argv": argv}, {"argv": "/bin/true"}]}, SECRETS)
    expected = ["nsys", "profile", "-o", "run 1", "--out=y.sqlite"]
    expected += ["--api-key", "<redacted>", "--hf-token=<redacted>", "--seq", "1024"]
    assert clean == {"steps": [{"argv": expected}, {"argv": "true"}]}


def test_csv_cells_and_columns() -> None:
    text = 'backend,host,reason\nmath,wonderland,\nflash,wonderland,"no /home/alice/lib/x.so, sorry"\n'
    assert sanitize_csv(text, SECRETS) == 'backend,reason\nmath,\nflash,"no x.so, sorry"\n'
    assert sanitize_csv("", SECRETS) == ""


def test_an_environment_that_holds_a_word_of_our_format_does_not_break_it() -> None:
    assert is_public("hash")
    assert not is_public("hash-of-my-password")
