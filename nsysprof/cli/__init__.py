"""Define the command line: one file per command, and the only place that turns an error into an exit code."""

from __future__ import annotations

import ast
import errno
import functools
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from nsysprof.cli.options import bare_class, old_words, with_options
from nsysprof.cli.terminal import ForgivingStream, forgive_streams, say, show_status
from nsysprof.errors import InterruptedCaptureError, NsysprofError, OutputError, TraceError
from nsysprof.files.memory_reuse import reuse_freed_memory
from nsysprof.files.plain_file import VERSION

# The base class of typer's own errors, which typer does not make public.
_BAD_COMMAND_LINE = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException")

# The signals that asked this process to end.
_INTERRUPTED_BY: list[int] = []
# How long after an interrupt that was dropped it is repeated (s).
_AGAIN_S = 0.05


def _epilog(examples: tuple[str, ...]) -> str:
    """Return the examples of a command, for the end of its help."""
    return "\n\n".join(["Examples:", *(f"$ {example}" for example in examples)])


def _in_lines(docstring: str) -> str:
    """Return the docstring with each paragraph in one line, because typer would keep the breaks of the source."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command so that Ctrl-C raises our own error. The exit code of typer depends on its version."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise InterruptedCaptureError("Interrupted.") from None

    return run


# The commands of each panel of the help, with the module of each command. A module has a function of the command's name
# and its EXAMPLES; where it has many options, also the PANELS of those that people use. Only the modules of commands
# that are called are loaded.
_PANELS = {
    "Start": {"demo": "nsysprof.cli.demo", "doctor": "nsysprof.cli.doctor", "help": "nsysprof.cli.help"},
    "Record": {
        "capture": "nsysprof.cli.measuring.capture",
        "record": "nsysprof.cli.measuring.record",
        "run": "nsysprof.cli.measuring.run",
    },
    "Read": {
        "analyze": "nsysprof.cli.analyze",
        "view": "nsysprof.cli.view",
        "whatif": "nsysprof.cli.whatif",
        "export": "nsysprof.cli.export",
    },
    "Compare and share": {
        "compare": "nsysprof.cli.compare",
        "history": "nsysprof.cli.history",
        "bundle": "nsysprof.cli.bundle",
    },
    "Attention": {
        "bench": "nsysprof.cli.measuring.bench",
        "tune": "nsysprof.cli.tune",
        "explain": "nsysprof.cli.explain",
        "optimize": "nsysprof.cli.optimize",
    },
    "For agents": {"mcp": "nsysprof.cli.mcp"},
}
_COMMANDS = {name: module for modules in _PANELS.values() for name, module in modules.items()}
_PANEL_OF = {name: panel for panel, modules in _PANELS.items() for name in modules}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nsysprof {VERSION}")
        raise typer.Exit


def program_options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Find out what a CUDA program did on the GPU and why it was not faster, from Nsight Systems traces."""


def _new_word(words: Mapping[str, str], word: str) -> str:
    """Return the word that is used now for a word of the command line."""
    return words.get(word, word)


def _do_nothing() -> None:
    """Stand for a command that is only listed."""


def _read_description(name: str) -> str:
    """Return the docstring of a command without loading its module, because the list of all commands is short."""
    spec = find_spec(_COMMANDS[name])
    assert spec is not None and spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    command = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    return ast.get_docstring(command) or ""


def make_app(names: Iterable[str], *, is_list: bool = False) -> typer.Typer:
    """Return the command line with some of the commands.

    is_list: whether the commands are only listed; none of them can then be called.
    """
    made = typer.Typer(
        name="nsysprof",
        help="Find out what a CUDA program did on the GPU and why it was not faster, from Nsight Systems traces.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(program_options)
    for name in names:
        if is_list:
            made.command(name, help=_in_lines(_read_description(name)), rich_help_panel=_PANEL_OF[name])(_do_nothing)
            continue
        module = import_module(_COMMANDS[name])
        command, examples = getattr(module, name), module.EXAMPLES
        # Everything after the program's name belongs to the program, including options.
        settings: dict[str, Any] = (
            {"allow_interspersed_args": False} if name in ("capture", "bench", "optimize", "run") else {}
        )
        if words := old_words(command):
            settings["token_normalize_func"] = functools.partial(_new_word, words)
        made.command(
            name,
            cls=bare_class(command),
            help=_in_lines(command.__doc__ or ""),
            epilog=_epilog(examples),
            context_settings=settings,
            rich_help_panel=_PANEL_OF[name],
        )(_interruptible(with_options(command, getattr(module, "PANELS", None))))
    return made


if TYPE_CHECKING:
    app: typer.Typer  # with all commands
else:

    @functools.cache
    def _whole_app():
        return make_app(_COMMANDS)

    def __getattr__(name):
        if name == "app":
            return _whole_app()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command. Every failure prints one clear line and the next step, and has its own exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in the background of a shell script
        signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = functools.partial(_repeat_interrupt, sys.unraisablehook)
    reuse_freed_memory()
    output = forgive_streams()
    try:
        code = _run()
        show_status("")
        output.flush()
        code = _judge_output(output, code)
    except KeyboardInterrupt:  # a second Ctrl-C while the first is being reported
        code = InterruptedCaptureError.exit_code
    # everything is done; now Ctrl-C would only make Python's own exit a traceback
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == InterruptedCaptureError.exit_code:
        # Python may remember the interrupt and exit by the signal, with -2 instead of this code.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    """Run the command that the arguments name, and return its exit code."""
    try:
        # typer takes a fiftieth of the time of a small trace for the options of all other commands.
        is_command = bool(sys.argv[1:2]) and sys.argv[1] in _COMMANDS
        is_named = any(argument in _COMMANDS for argument in sys.argv[1:]) or "_NSYSPROF_COMPLETE" in os.environ
        called = make_app(sys.argv[1:2] if is_command else _COMMANDS, is_list=not is_named)
        ended = called(standalone_mode=False)
        if ended == InterruptedCaptureError.exit_code and _INTERRUPTED_BY:  # typer says nothing outside of a command
            raise InterruptedCaptureError("Interrupted.")
    except NsysprofError as error:
        # What a reader makes of an interrupt is no fault of the file.
        is_of_interrupt = bool(_INTERRUPTED_BY) and isinstance(error, TraceError)
        return _complain(InterruptedCaptureError("Interrupted.") if is_of_interrupt else error)
    except KeyboardInterrupt:
        return _complain(InterruptedCaptureError("Interrupted."))
    except MemoryError:
        text = "There is not enough memory for this."
        return _complain(OutputError(text, "End other programs, or use a machine with more memory."))
    except Exception as error:
        if isinstance(error, _BAD_COMMAND_LINE):
            return _explain_usage(error)
        if os.environ.get("NSYSPROF_DEBUG"):
            raise
        return _complain(_unexpected(error))
    return ended if isinstance(ended, int) else 0


def _unexpected(error: Exception) -> NsysprofError:
    """Return what to say of an error that no code expected."""
    # Some libraries turn a KeyboardInterrupt into an error of their own, such as numpy in a comparison of records.
    if _INTERRUPTED_BY:
        return InterruptedCaptureError("Interrupted.")
    return NsysprofError(
        f"Unexpected {type(error).__name__}: {error}",
        "This is a bug in nsysprof. NSYSPROF_DEBUG=1 shows where it is; please report it.",
    )


def _explain_usage(error: Any) -> int:
    """Print what is wrong with the command line, as typer found it. Without any arguments, print the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.ctx.get_help(), err=True)
    else:
        text = error.format_message().replace("Value error, ", "").rstrip(".")
        text += "" if text.endswith("?") else "."
        path = error.ctx.command_path if error.ctx is not None else "nsysprof"
        _complain(NsysprofError(text, f"{path} --help lists commands and options."))
    return int(error.exit_code)


def _judge_output(output: ForgivingStream, code: int) -> int:
    """Return the exit code, after a message if standard output could not be written."""
    failure = output.failure
    if failure is None or failure.errno == errno.EPIPE:
        return code
    said = f"Standard output cannot be written: {failure.strerror}."
    error = OutputError(said, "Send it somewhere else, and run again." if output.is_lost else "The files are written.")
    _complain(error)
    return error.exit_code if output.is_lost and code == 0 else code


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _INTERRUPTED_BY.append(number)
    raise KeyboardInterrupt


def _repeat_interrupt(tell: Callable[[Any], None], lost: Any) -> None:
    """Interrupt again, a moment later, where Python has dropped an interrupt.

    It drops whatever is raised in a destructor, or in a callback of a library that cannot pass it on.

    tell: what to do with other exceptions that were dropped.
    """
    if lost.exc_type is not KeyboardInterrupt or not _INTERRUPTED_BY:
        tell(lost)
        return
    main_thread, number = threading.main_thread().ident, _INTERRUPTED_BY[-1]
    if main_thread is not None and hasattr(signal, "pthread_kill"):
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main_thread, number))
        again.daemon = True
        again.start()


def _complain(error: NsysprofError) -> int:
    """Print an error with its next step, and return its exit code."""
    say(f"nsysprof: {error.text}", err=True)
    if error.next_step:
        say(f"  -> {error.next_step}", err=True)
    return error.exit_code
