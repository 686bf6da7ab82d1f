"""The CPU that benchmarks run on, and the versions of the peers that they compare with."""

from importlib import metadata
from pathlib import Path

from compiler.tools.peers import PEERS, ModelRun, prepare_peer, present

__all__ = ["PEERS", "ModelRun", "cpu_name", "host", "prepare_peer", "present"]


def host(peers: list[str]) -> dict[str, str]:
    """The CPU, and the versions of the peers."""
    return {"cpu": cpu_name(), **{name: metadata.version(name) for name in peers}}


def cpu_name(information: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the CPU, with its family and number where the name says little."""
    if not information.is_file():
        return "unknown"
    pairs = (line.partition(":") for line in information.read_text().splitlines())
    said: dict[str, str] = {}
    for key, _, value in pairs:
        said.setdefault(key.strip(), value.strip())
    if "model name" not in said:
        return "unknown"
    numbers = [f"{key} {said[key]}" for key in ("cpu family", "model") if key in said]
    return ", ".join([said["model name"], *numbers])
