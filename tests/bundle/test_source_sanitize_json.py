"""Our own files: what is not on the list goes, with its value; the rest stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.secret_values import is_public
from nsysprof.bundle.source import MEMBERS, FileCleaner, Member, Role, private_values, public_values

SECRETS = ["/home/alice/my project", "sesame-7f3a9b", "alice"]
CSV = Member("x.csv", {"backend": Role.TEXT, "reason": Role.TEXT, "kernel": Role.KERNEL}, any_number=True)


def clean(data: Any, *, keep: bool = False) -> tuple[Any, dict[str, set[str]]]:
    cleaner = FileCleaner(SECRETS, NameTokens(keep=keep))
    return cleaner.json("manifest.json", data), cleaner.left_out


def test_fields_that_are_not_on_the_list_go() -> None:
    data = {
        "format_version": 1,
        "hostname": "wonderland",
        "acme_field": {"gpu_name": "x"},
        "environment": {"gpu_name": "NVIDIA H200", "user": "alice", "cpu_model": "EPYC", "seq": 5},
        "notes": [{"code": "c", "text": "wrote /home/alice/my project/out/x.sqlite for alice", "who": "alice"}],
        "complete": True,
        "profiler": None,
    }
    cleaned, left_out = clean(data)
    assert cleaned == {
        "format_version": 1,
        "environment": {"gpu_name": "NVIDIA H200", "cpu_model": "EPYC"},
        "notes": [{"code": "c", "text": "wrote <path-1> for <redacted>"}],
        "complete": True,
        "profiler": None,
    }
    assert left_out["manifest.json"] == {
        "field hostname", "field of another name", "environment field user", "environment field of another name",
    }  # fmt: skip
    kept, _ = clean(data, keep=True)
    assert kept["notes"][0]["text"] == "wrote x.sqlite for <redacted>"


def test_keys_that_are_data_are_cleaned_too() -> None:
    cleaned, _ = clean({"samples": {"RUN::acme:attn::S1": {"unit": "ns", "values": [1, 2], "alice": 1}}})
    assert cleaned == {"samples": {"RUN::backend_1::S1": {"unit": "ns", "values": [1, 2]}}}
    assert clean({"samples": 7})[0] == {"samples": 7}  # of a plan: how many


def test_the_names_of_ranges_become_tokens() -> None:
    costs = [{"range": "acme secret step#", "slowdown": 1.2, "alice": 1}, {"range": "RUN::math::S1", "slowdown": 1.0}]
    cleaned, _ = clean({"costs": costs})
    assert cleaned == {"costs": [{"range": "<range-1>", "slowdown": 1.2}, {"range": "RUN::math::S1", "slowdown": 1.0}]}
    assert clean({"costs": costs}, keep=True)[0]["costs"][0]["range"] == "acme secret step#"


ARGV = [
    "/opt/nsys/bin/nsys", "profile", "--trace=cuda,nvtx", "--output=/data/alice/run1/nsys", "--acme=wonder",
    "--api-key", "k-123", "--hf-token=h-456", "acme.yaml", "--seq", "1024", "python3.11", "-m",
    "nsysprof.workload.supervise",
]  # fmt: skip


def test_command_lines_keep_what_is_of_a_profiler() -> None:
    cleaned, _ = clean({"steps": [{"argv": ARGV}, {"argv": "/bin/true"}]})
    assert cleaned["steps"][0]["argv"] == [
        "nsys", "profile", "--trace=cuda,nvtx", "--output=nsys", "<argument>", "--api-key", "<redacted>",
        "<argument>=<redacted>", "<argument>", "--seq", "<argument>", "python3.11", "-m", "nsysprof.workload.supervise",
    ]  # fmt: skip
    assert cleaned["steps"][1] == {"argv": ["<argument>"]}


def test_command_lines_lose_credentials_even_where_names_are_kept() -> None:
    cleaned, _ = clean({"steps": [{"argv": ARGV}]}, keep=True)
    argv = cleaned["steps"][0]["argv"]
    assert "--acme=wonder" in argv
    assert "acme.yaml" in argv
    assert argv[5:8] == ["--api-key", "<redacted>", "--hf-token=<redacted>"]


def test_csv_columns_and_cells() -> None:
    cleaner = FileCleaner(SECRETS, NameTokens())
    text = (
        "backend,host,reason,median_ns,median_alice,mixed,kernel\n"
        'math,wonderland,"no /home/alice/lib/x.so sorry",1.5e3,1,7,void acme(int)\n'
        "flash,wonderland,,,2,seven,aten::mm\n"
    )
    assert cleaner.csv(CSV, text) == (
        "backend,reason,median_ns,kernel\nmath,no <path-1> sorry,1.5e3,<kernel-1>\nflash,,,aten::mm\n"
    )
    assert cleaner.left_out == {"x.csv": {"column 2", "column 5", "column 6"}}
    assert cleaner.csv(CSV, "") == ""


def test_counters_are_numbers_and_names() -> None:
    member = next(member for member in MEMBERS if member.name == "counters.csv")
    cleaner = FileCleaner(SECRETS, NameTokens())
    text = "run,range,kernel,Host Name,dram__bytes_read.sum\n"
    text += 'traffic,RUN::math::S1,aten::mm,wonderland,"1,024"\ndetail,RUN::math::S1,acme,wonderland,n/a\n'
    out = cleaner.csv(member, text)
    assert "wonderland" not in out
    assert out.splitlines()[0] == "run,range,kernel,dram__bytes_read.sum"
    assert '"1,024"' in out
    assert "<kernel-1>" in out


def test_what_is_private_and_what_is_public() -> None:
    data = {
        "user": "alice",
        "environment": {"gpu_name": "NVIDIA H200", "hostname": "wonderland", "sdpa_flags": {"flash": True}},
        "deep": [{"api_key": "k-12345", "cwd": {"a": "/home/alice/x"}, "node": "abc"}],
    }
    assert set(private_values(data)) == {"alice", "wonderland", "k-12345", "/home/alice/x"}
    assert set(public_values(data)) == {"NVIDIA H200"}
    assert list(public_values([])) == []


@pytest.mark.parametrize("word", ["hash", "gpu"])
def test_an_environment_that_holds_a_word_of_our_format_does_not_break_it(word: str) -> None:
    assert is_public(word)
    assert not is_public("hash-of-my-password")
