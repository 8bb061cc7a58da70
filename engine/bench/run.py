"""`engine bench`: runs recipes by name, beside other engines if wanted, and prints what came out."""

from __future__ import annotations

import dataclasses
import json as json_format
import platform
import sys
from collections.abc import Sequence

from engine.bench import peer_rapier
from engine.bench.measure import Result, measure
from engine.bench.recipes import RECIPES
from engine.config import config
from engine.context import get_device
from engine.errors import Error


def recipe_list() -> dict[str, str]:
    """Name and one-line description of every recipe, for `engine bench --list`."""
    return {recipe.name: recipe.doc for recipe in RECIPES.values()}


def run_bench(
    names: Sequence[str] = (), device: str = "", threads: int | None = None, json: bool = False, peers: bool = False
) -> list[Result]:
    """Runs the recipes `names` (all, if none are named), prints them, and returns their results in that order.

    `device` "" is the default one; `threads` overrides the knob of that name; `json` prints one JSON object instead of
    tables; `peers` also runs the other engines that are installed, right after this one. Raises `Error` for an unknown
    name, `DeviceError` for an unknown device, `ConfigError` for a bad number of threads. A recipe whose check fails has
    the reason in `wrong`, here and in print.
    """
    unknown = [name for name in names if name not in RECIPES]
    if unknown:
        raise Error(f"no benchmark '{unknown[0]}'; there are {', '.join(RECIPES)}")
    if peers and not peer_rapier.installed():
        raise Error("no other engine is installed; pip install 'weft-engine[peers]'")
    results = []
    device = get_device(device or None).name
    with config.scope(threads=config.threads if threads is None else threads):
        for name in names or RECIPES:
            print(f"{name}: {RECIPES[name].doc} ...", file=sys.stderr, flush=True)
            found = [measure(RECIPES[name], device)]
            if peers:
                found.append(peer_rapier.measure(RECIPES[name]))
            results += found
            if not json:
                print_results(found)
    if json:
        rows = [dataclasses.asdict(result) for result in results]
        print(json_format.dumps({"machine": platform.processor() or platform.machine(), "results": rows}, indent=1))
    return results


def print_results(results: Sequence[Result]) -> None:
    """One table for the results of one recipe, a column for each engine, and this engine's stages below."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    first = results[0]
    table = Table(box=box.SIMPLE_HEAD, title=first.scene, title_justify="left")
    table.add_column("")
    for result in results:
        table.add_column(result.engine, justify="right")
    for row in zip(*(described(result) for result in results)):
        table.add_row(row[0][0], *(value for _, value in row))
    console.print(table)
    if first.stages:
        stages = Table(box=box.SIMPLE_HEAD)
        stages.add_column("stage")
        stages.add_column("ms/step", justify="right")
        for path, ms in first.stages.items():
            stages.add_row("  " * path.count("/") + path.rpartition("/")[2], f"{ms:.3f}")
        console.print(stages)


def described(result: Result) -> list[tuple[str, str]]:
    """(label, text) of each line of the table."""
    rows = [
        ("ms/step, median", f"{result.ms_median:.3f}"),
        ("ms/step, mean", f"{result.ms_mean:.3f}"),
        ("ms/step, largest", f"{result.ms_max:.3f}"),
        ("device, threads", f"{result.device}, {result.threads}"),
        ("bodies, joints", f"{result.bodies}, {result.joints}"),
        ("steps, of them measured", f"{result.steps}, {result.measured}"),
        ("substeps, iterations", f"{result.substeps}, {result.iterations}"),
        ("sleeping", result.sleeping),
        ("contacts alive", str(result.contacts)),
        ("largest penetration", f"{result.largest_penetration * 1e3:.2f} mm"),
        ("lowest corner", f"{result.lowest_corner:.4f} m"),
        ("mean speed", f"{result.mean_speed:.4f} m/s"),
        ("build", f"{result.build_s:.2f} s"),
        ("compile", f"{result.compile_s:.2f} s, {result.kernel_cache} cache" if result.compile_s else "-"),
        ("peak memory", f"{result.peak_memory_mb:.0f} MB"),
        ("verdict", result.wrong or "good"),
    ]
    return rows
