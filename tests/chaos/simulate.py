"""Run histories of a simulated fleet: `python -m tests.chaos.simulate --histories 1000 --seed 0`.

Prints histories per minute, and for a finding the seed and the story; `--seed N --story` shows it again.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.chaos.simulation import definitions
from tests.chaos.simulation.drama import Drama
from tests.chaos.simulation.known import KNOWN

from redrive.determinism.clock import SystemClock
from redrive.testing.fleet.rare_collections import RareCollections

PIECE = 200
CLOCK = SystemClock()


def run_piece(first: int, count: int, keep_going: bool) -> tuple[int, Counter[str], dict[str, list[int]], Counter[str]]:
    """Run histories; return how many, and the seeds of findings by kind."""
    definitions.register()
    kinds: Counter[str] = Counter()
    seeds: dict[str, list[int]] = {}
    known: Counter[str] = Counter()
    with RareCollections() as collections:
        for seed in range(first, first + count):
            history = Drama(seed).run()
            collections.history_ended()
            known.update(history.findings.known)
            for finding in history.findings.all[:1]:
                kinds[finding.kind] += 1
                seeds.setdefault(finding.kind, []).append(seed)
            if kinds and not keep_going:
                return seed - first + 1, kinds, seeds, known
    return count, kinds, seeds, known


def tell(seed: int) -> str:
    """The story of a history, and what was found in it."""
    definitions.register()
    history = Drama(seed).run()
    found = "\n".join(map(str, history.findings.all))
    about = {finding.flow_id for finding in history.findings.all if finding.flow_id}
    lines = "\n".join(history.story.about(about)) if about else str(history.story)
    return f"seed {seed}\n{lines}\n{found}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--story", action="store_true", help="print the story of the first history")
    parser.add_argument("--keep-going", action="store_true", help="count findings instead of stopping at the first")
    given = parser.parse_args()
    if given.story:
        print(tell(given.seed))
        return 0
    began = CLOCK.monotonic()
    done, kinds, known = 0, Counter[str](), Counter[str]()
    seeds: dict[str, list[int]] = {}
    firsts = range(given.seed, given.seed + given.histories, PIECE)
    pieces = [(first, min(PIECE, given.seed + given.histories - first)) for first in firsts]
    with ProcessPoolExecutor(given.processes) as pool:
        running = [pool.submit(run_piece, *piece, given.keep_going) for piece in pieces]
        for piece in as_completed(running):
            count, of_piece, where, excluded = piece.result()
            done += count
            kinds += of_piece
            known += excluded
            for kind, found in where.items():
                seeds.setdefault(kind, []).extend(found)
            if kinds and not given.keep_going:
                pool.shutdown(cancel_futures=True)
                break
    took = CLOCK.monotonic() - began
    print(f"{done:,} histories in {took:.1f} s: {done / took * 60:,.0f} a minute with {given.processes} processes")
    for kind, count in known.most_common():
        print(f"known, not counted ({'in the list' if kind in KNOWN else ''}): {count:,} x {kind}")
    for kind, count in kinds.most_common():
        print(f"FOUND {count:,} x {kind}; seeds {', '.join(map(str, sorted(seeds[kind])[:8]))}")
    if kinds and not given.keep_going:
        print(tell(min(seed for found in seeds.values() for seed in found)))
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
