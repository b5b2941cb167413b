"""Define `nsysprof mcp`: serve the traces of a folder to AI agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nsysprof.app.inputs.options import Nsys, Option
from nsysprof.cli import options
from nsysprof.cli.terminal import print_json

EXAMPLES = ("nsysprof mcp traces    # the command that an agent starts",)


def mcp(
    folder: Annotated[Path, Option("The folder whose traces may be read.", metavar="FOLDER", is_argument=True)],
    nsys: Nsys = None,
    as_json: options.Json = False,
) -> None:
    """Serve the traces of a folder to agents by the Model Context Protocol, on standard input and output.

    The tools list_traces, summarize, findings, kernels, instances, compare and whatif only read, and only what is in
    the folder. Needs the extra `mcp` of the package. With --json, print what an agent is told of the tools, and stop.
    """
    from nsysprof.app.agents.mcp_server import describe_tools, make_server

    server = make_server(folder, nsys)
    if as_json:
        print_json(describe_tools(server))
    else:
        server.run("stdio")
