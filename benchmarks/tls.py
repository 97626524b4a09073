"""How long the event loop is blocked when a process first asks a model over TLS.

Loading the root certificates takes 50 ms of CPU, importing an HTTP client even longer. Each sample is a
process of its own, in which nothing was imported or loaded before, against a server on loopback with a
certificate of its own. A task that sleeps for a millisecond notes how much CPU the loop's thread spends
before it wakes up; so other processes of a busy machine do not count. The best of some processes counts.

`python -m benchmarks.tls summary URL` is one sample; it prints the worst gap in milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

from benchmarks import slow_model
from benchmarks.table import Figure

CERTIFICATES = Path(__file__).parent.parent / "tests" / "models" / "tls"
SAMPLES, REQUESTS = 7, 64
PAUSE_SECONDS = 0.001
ASKED = [{"role": "user", "content": "Is the ferry running on Sunday?"}]


async def measure(folder: Path) -> list[Figure]:
    bundle = await asyncio.to_thread(_write_bundle, folder / "certificates.pem")
    best = dict.fromkeys(SAMPLED, float("inf"))
    with slow_model.running(CERTIFICATES / "server.pem") as url:
        for _ in range(SAMPLES):
            for name in best:
                best[name] = min(best[name], await asyncio.to_thread(_sample, name, url, bundle))
    return [
        Figure(
            name="the first summary of a process over TLS: worst gap of the loop, ms",
            ours=f"{best['summary']:.1f} ms",
            floor=f"{best['load']:.1f} ms to import httpx and load the certificates",
            value=best["summary"],
            bound=20,
        ),
        Figure(
            name=f"the first {REQUESTS} requests at once: worst gap / bare httpx, TLS ready",
            ours=f"{best['requests']:.1f} ms",
            floor=f"{best['bare']:.1f} ms",
            value=best["requests"] / best["bare"],
            bound=1.5,
        ),
    ]


def _write_bundle(path: Path) -> Path:
    """All certificates that a client usually reads, and that of our server."""
    import certifi

    path.write_bytes(Path(certifi.where()).read_bytes() + (CERTIFICATES / "authority.pem").read_bytes())
    return path


def _sample(name: str, url: str, bundle: Path) -> float:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.tls", name, url],
        env={**os.environ, "SSL_CERT_FILE": str(bundle)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(ran.stdout)


async def _worst_gap(work: Awaitable[object]) -> float:
    """How many milliseconds of CPU the loop was held at most while the work was done."""
    worst = 0.0
    task = asyncio.ensure_future(work)
    while not task.done():
        began = time.thread_time()
        await asyncio.sleep(PAUSE_SECONDS)
        worst = max(worst, time.thread_time() - began)
    await task
    return worst * 1000


async def _summary(url: str) -> float:
    from autonomy_ctx import Memory, Message, Model, SummarizedHistorySection

    model = Model("slow", base_url=url)
    async with Memory() as memory, model, SummarizedHistorySection(model, floor=2, ceiling=4) as section:
        for number in range(6):
            await memory.append("ana", "trip", Message("user", f"Stop {number} is a town with a story."))

        async def first_summary() -> None:
            await section.get_messages(memory, "ana", "trip", {})
            await section.settled()

        return await _worst_gap(first_summary())


async def _requests(url: str) -> float:
    from autonomy_ctx import Model

    async with Model("slow", base_url=url) as model:
        return await _worst_gap(asyncio.gather(*(model.complete_chat(ASKED) for _ in range(REQUESTS))))


async def _bare(url: str) -> float:
    import httpx

    limits = httpx.Limits(max_connections=1000)
    context = httpx.create_ssl_context()
    body = {"model": "slow", "messages": ASKED}
    async with httpx.AsyncClient(verify=context, limits=limits, timeout=60.0) as client:
        asked = (client.post(f"{url}/v1/chat/completions", json=body) for _ in range(REQUESTS))
        return await _worst_gap(asyncio.gather(*asked))


async def _load(url: str) -> float:
    began = time.process_time()
    import httpx

    httpx.AsyncClient()
    return (time.process_time() - began) * 1000


SAMPLED = {"summary": _summary, "load": _load, "requests": _requests, "bare": _bare}

if __name__ == "__main__":
    print(asyncio.run(SAMPLED[sys.argv[1]](sys.argv[2])))
