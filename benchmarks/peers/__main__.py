"""Hold the conversation with every peer, and print their figures side by side.

`python -m benchmarks.peers [--markdown] [--python PATH] [NAME ...]`
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

from benchmarks.model_server import running
from benchmarks.peers.report import Row, make_row, make_table
from benchmarks.peers.settings import (
    MESSAGE_TOKENS,
    PEERS,
    REPLY_SECONDS,
    SUMMARY_SECONDS,
    SUMMARY_TOKENS,
    Peer,
)
from benchmarks.provider import CACHED, LEAST, OUTPUT, STEP
from benchmarks.talk import CALLS, FACTS, RESULT_TOKENS, TURNS, planted_fact, steps

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 600
NOTES = f"""\
{TURNS} turns, {CALLS} tool calls of {RESULT_TOKENS} tokens, {len(FACTS)} planted facts; {{load}} before.
One model for all, over HTTP: {REPLY_SECONDS * 1000:.0f} ms for a reply (a turn with a call has two), \
{SUMMARY_SECONDS * 1000:.0f} ms for a summary,
which has a fifth of what it is made of, earlier summaries included, and at most {SUMMARY_TOKENS:,} tokens.
Users write on when background work is done.

level     20/10: a summary is due above 20 messages, 10 stay as they are; in tokens {MESSAGE_TOKENS} a message
cost      uncached input + {CACHED:g} cached + {OUTPUT:g} output, summaries included; tokens by our estimate.
          Cached is the longest beginning that a request shares with one before, in steps of {STEP} tokens
          from {LEAST:,} on.
waits     turns in which a summary began and ended, so that the user waited for it
p95       of a turn; beside model: of its time without the model's replies
CPU       of a turn: the framework's process with its background work, without the first turn
largest   request, in tokens, with the tools
facts     planted facts in what the model read for its last reply
refused   requests that break the API's rules of tool calls and results
lost      messages that the conversation's memory no longer has"""


def hold(peer: Peer, url: str, python: str | None) -> Row:
    """The figures of one peer; its error where it fails."""
    path = python or str(ROOT / peer.environment / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        command = [path, "-m", "benchmarks.peers.client", peer.name, url, folder]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
            )
            if ended.returncode:
                error = ended.stderr or f"exit {ended.returncode}"
                return Row(title=peer.title, level=str(peer.level), error=error)
            client = json.loads(Path(folder, "result.json").read_text())
            with urlopen(f"{url}/{peer.name}/report") as answer:
                upstream = json.load(answer)
            title = f"{peer.title} {client['version']}"
            return make_row(title, str(peer.level), client, upstream, said(), facts())
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return Row(title=peer.title, level=str(peer.level), error=f"{type(error).__name__}: {error}")


def facts() -> list[str]:
    return [planted_fact(number).removesuffix(".") for number in FACTS]


def said() -> list[str]:
    """The text of every message; tool calls have none."""
    return [
        message["content"]
        for number in range(TURNS)
        for step in steps(number)
        for message in step
        if message["content"]
    ]


def main() -> int:
    names = sorted({name for peer in PEERS for name in (peer.module, peer.name)})
    options = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    options.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(names)}")
    options.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    options.add_argument("--python", help="an interpreter that has the frameworks, in place of .venv-peers")
    given = options.parse_args()
    if unknown := sorted({*given.names} - {*names}):
        options.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(names)}")
    chosen = [peer for peer in PEERS if not given.names or {peer.module, peer.name} & {*given.names}]
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    rows = []
    with running("benchmarks.peers.upstream") as url:
        for peer in chosen:
            print(f"{peer.title} {peer.level} ...", file=sys.stderr, flush=True)
            rows.append(hold(peer, url, given.python))
    print(make_table(rows, markdown=given.markdown))
    print(f"\n{NOTES.format(load=load)}\n")
    for title, memory in dict.fromkeys((peer.title, peer.memory) for peer in chosen):
        print(f"{title}: {memory}")
    failed = [row for row in rows if row.error]
    for row in failed:
        print(f"\n{row.title} {row.level} failed:\n{row.error.strip()}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
