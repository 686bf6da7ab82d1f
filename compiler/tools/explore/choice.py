"""The recorded choice of a module for the explorer: candidates, policies, tiles and options."""

from collections.abc import Mapping, Sequence
from typing import cast

from compiler.artifact.module import Module
from compiler.schedule.choices import (
    CONTRACTIONS,
    SCHEDULE,
    SUBSTITUTION,
    Choice,
    ScheduleChoice,
    SearchRecord,
)
from compiler.target.target import parse_target
from compiler.tensors.contraction import contraction_text
from compiler.tools.explore.configs import KernelConfig
from compiler.tools.explore.document import CandidateFact, ChoiceFact

NOT_SEARCHED = (
    "Nothing was searched: schedules of this target are not chosen, the pipeline was as given."
)

TILES_OF_ARTIFACT = (
    "An artifact does not record which tiles competed: `flowloom explore MODEL` compiles the model"
    " and shows them."
)
NO_CPU_TILES = (
    "This CPU's database has no candidate of these kernels: compile measures some with --budget"
    " SECONDS (docs/tuning.md)."
)
NO_TILES = (
    "The database has no candidate of these kernels: none was measured, and `flowloom tune MODEL`"
    " on a machine with the device measures them."
)


def tiles_sentence(configs: Mapping[str, KernelConfig], on_cpu: bool) -> str:
    """Of how many kernels candidates were measured; why of none."""
    if not configs:
        return TILES_OF_ARTIFACT
    count = sum(bool(config.candidates) for config in configs.values())
    if not count:
        return NO_CPU_TILES if on_cpu else NO_TILES
    reason = "there was no time for them" if on_cpu else "similar kernels lent their tile"
    return (
        f"Candidates of {count} of {len(configs)} kernels were measured alone; shown are the"
        f" fastest, which the database keeps. The others have none: {reason}, an estimate decided,"
        " or no template computes them."
    )


def choice_fact(module: Module, configs: Mapping[str, KernelConfig]) -> ChoiceFact:
    """The candidates and the reasons, as a module records them, and the tiles of its kernels."""
    tiles = tiles_sentence(configs, not parse_target(module.target).is_gpu)
    if module.choice is None:
        return ChoiceFact(
            sentence=NOT_SEARCHED,
            candidates=[],
            policies=[],
            search="",
            bound={},
            tiles=tiles,
            facts=[],
        )
    choice = module.choice.schedule
    search = choice.search
    return ChoiceFact(
        sentence=f"{choice.chosen} was chosen: {choice.reason}.",
        candidates=_candidates(choice),
        policies=[] if search is None else sorted(search.policies.items(), key=lambda x: x[1]),
        search="" if search is None else _search_sentence(search),
        bound={} if search is None else dict(search.bound),
        tiles=tiles,
        facts=_facts(module),
    )


def _candidates(choice: ScheduleChoice) -> list[CandidateFact]:
    """The candidates, measured ones first, the fastest first."""
    names = dict.fromkeys([*choice.estimates, *choice.timings, *choice.skipped])
    facts = [_candidate(choice, name) for name in names]
    return sorted(facts, key=_speed)


def _speed(fact: CandidateFact) -> tuple[bool, float]:
    time = fact.predicted if fact.median is None else fact.median
    return fact.median is None, float("inf") if time is None else time


def _candidate(choice: ScheduleChoice, name: str) -> CandidateFact:
    timing = choice.timings.get(name)
    notes = ["baseline"] if name == choice.baseline else []
    notes += [f"skipped: {choice.skipped[name]}"] if name in choice.skipped else []
    return CandidateFact(
        name=name,
        predicted=choice.estimates.get(name),
        median=None if timing is None else timing.median,
        low=None if timing is None else timing.low,
        high=None if timing is None else timing.high,
        count=0 if timing is None else timing.count,
        note=", ".join(notes),
        chosen=name == choice.chosen,
    )


def _search_sentence(search: SearchRecord) -> str:
    return (
        f"The search began with {search.start}, {search.started_at / 1e3:.1f} µs, and kept"
        f" {search.kept} of {search.steps} moves (seed {search.seed}): {search.moved / 1e3:.1f} µs,"
        f" all simulated. {search.makespan / 1e3:.1f} µs was taken."
    )


def _facts(module: Module) -> list[tuple[str, str]]:
    assert module.choice is not None
    choice = module.choice.schedule
    facts = [
        ("source", choice.source),
        ("mode", choice.mode + (" with early launches (PDL)" if choice.pdl else "")),
        ("kernels measured", f"{len(choice.costs)} of {len(module.kernels)}"),
        ("budget", f"{choice.budget_seconds:g} s"),
    ]
    if choice.tuning is not None:
        facts.append(("kernels tuned", str(choice.tuning)))
    if choice.device is not None:
        facts.append(("device", str(choice.device.get("name", ""))))
    return facts + [fact for question in module.choice.nested() for fact in _times(question)]


def _times(choice: Choice) -> list[tuple[str, str]]:
    """The times of the ways of one question, but for schedules, which are candidates."""
    times = {way: f"{time / 1e3:.1f} µs" for way, time in choice.times.items()}
    if choice.question == SUBSTITUTION:
        return [(f"{graph} graph", time) for graph, time in times.items()]
    if choice.question == CONTRACTIONS:
        return [
            (
                f"contractions of {contraction_text(way)}",
                f"{time}{', taken' if way == choice.chosen else ''}",
            )
            for way, time in times.items()
        ]
    if choice.question == SCHEDULE:
        return []
    ways = ", ".join(f"{way} {time}" for way, time in times.items())
    return [(f"{choice.question} in memory that moves", f"by {choice.chosen} ({ways})")]


def option_facts(module: Module) -> list[tuple[str, str]]:
    """The options of the compilation that the module records, each as a label and a text."""
    facts = [("target", module.target), ("pipeline", module.pipeline or "as given")]
    facts += [(f"needs {name}", _text(value)) for name, value in module.requirements.items()]
    if module.choice is not None:
        choice = module.choice.schedule
        facts += [("mode", choice.mode), ("schedule", choice.chosen), ("PDL", _text(choice.pdl))]
    return facts


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, object], value)
        return ", ".join(f"{key} {_text(item)}" for key, item in pairs.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, cast(Sequence[object], value)))
    return str(value)
