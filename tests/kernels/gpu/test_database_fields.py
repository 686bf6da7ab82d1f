"""Named fields of the database: those of templates and of the shipped entries."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler.autotune.kernels import results
from compiler.errors import ArtifactError
from compiler.kernels import database
from compiler.kernels.database.fields import config_fields, problem_fields
from compiler.kernels.gpu.templates.attention import config as attention
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.grouped_conv import template as grouped_conv
from compiler.kernels.gpu.templates.row_norm import template as row_norm
from compiler.kernels.gpu.templates.stem_conv import config as stem_conv
from compiler.target.target import parse_gpu
from tests.kernels.attention_models import Attention
from tests.kernels.gpu.of_template import BY_NAME, problem_in
from tests.kernels.gpu.templates.test_attention import attention_group
from tests.kernels.gpu.templates.test_grouped import NASNET, convolution
from tests.kernels.gpu.templates.test_rows import residual_group
from tests.kernels.gpu.templates.test_stem import STEMS
from tests.kernels.gpu.templates.test_stem import convolution as stem

TARGET = parse_gpu("cuda:sm_90:tf32")
GROUPS = {
    "attention": lambda: attention_group(Attention("heads", "added", 1, 2, 20, 37, 16, 16))[0],
    "grouped_conv": lambda: convolution(NASNET),
    "stem_conv": lambda: stem(STEMS["ResNet-50"], "float32", 4),
    "gemm": lambda: stem(STEMS["ResNet-50"], "float32", 4),
    "row_norm": lambda: residual_group((2, 1, 300), 2),
}
SHIPPED = database.load(Path(database.__file__).parent / "sm_90.jsonl")

MEASURED = [name for name in GROUPS if BY_NAME[name].sources]

CONFIGS: dict[str, Any] = {
    "attention": attention.Config,
    "grouped_conv": grouped_conv.Config,
    "stem_conv": stem_conv.Config,
    "gemm": Tile,
    "row_norm": row_norm.Config,
}


@pytest.mark.parametrize("kind", ["database", "results"])
def test_other_formats_are_refused(kind: str, tmp_path: Path):
    head = {"arch": "sm_90", "device": "d", "compiler": "c", "format": 2}
    (tmp_path / "old").write_text(f"{json.dumps(head)}\n")
    load: Callable[[Path], object] = {
        "database": database.load,
        "results": results.load_results,
    }[kind]
    with pytest.raises(ArtifactError, match=r"format.*(remove it|measure again)"):
        load(tmp_path / "old")


@pytest.mark.parametrize("name", MEASURED)
def test_the_fields_of_shipped_problems_are_those_of_their_template(name: str):
    key = BY_NAME[name].key(problem_in(name, GROUPS[name](), TARGET), TARGET)
    shipped = [problem_fields(entry.key) for entry in SHIPPED.entries]
    assert {(*f,) for f in shipped if f["template"] == name} == {("template", *key)}


def test_every_shipped_config_is_one_of_its_template():
    assert len(SHIPPED.entries) >= 1637
    for entry in SHIPPED.entries:
        name = str(problem_fields(entry.key)["template"])
        assert name in MEASURED
        for measured in entry.configs:
            config = CONFIGS[name](**dict(measured.config))
            assert config_fields(config) == measured.config
