"""The committed page is built of its sources, and holds the licences of the libraries in it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools import needs

FOLDER = Path(__file__).parents[2] / "compiler" / "tools" / "explore"
WEB = FOLDER / "web"
OFFLINE = "npm could not install the exact packages of package-lock.json: "


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the packages of package-lock.json, which are downloaded."""
    copy = tmp_path_factory.mktemp("web") / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(OFFLINE + done.stderr.strip()[-300:])
    return copy


@needs("npm")
def test_the_committed_page_is_what_the_sources_build(sources: Path):
    subprocess.run(["npx", "tsc", "--noEmit"], cwd=sources, check=True, timeout=300)
    subprocess.run(["node", "build.mjs", "built.html"], cwd=sources, check=True, timeout=300)
    assert (sources / "built.html").read_text() == (FOLDER / "page.html").read_text()


def test_the_page_holds_the_licences_and_fetches_nothing():
    text = (FOLDER / "page.html").read_text()
    packages = json.loads((WEB / "package.json").read_text())["dependencies"]
    for name, version in packages.items():
        assert f"{name} {version}\n" in text
    assert text.count("Permission to use, copy, modify") >= 4
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert os.path.getsize(FOLDER / "page.html") < 250_000


def test_versions_are_exact():
    package = json.loads((WEB / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
    lock = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert all(lock[f"node_modules/{name}"]["version"] == v for name, v in versions.items())
    assert not any("resolved" in entry for entry in lock.values())
