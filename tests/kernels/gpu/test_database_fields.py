"""Named fields of the database: those of templates, of the shipped entries and of older files."""

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.autotune.kernels import results
from compiler.errors import ArtifactError
from compiler.kernels import database
from compiler.kernels.database import positional
from compiler.kernels.database.fields import config_fields, problem_fields
from compiler.kernels.gpu.templates import TEMPLATES
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
KEYS = {
    "attention": '["attention","fp16",12,[128,64,768,1],[64,128,1,768],[128,64,768,1]]',
    "grouped_conv": '["grouped","float32","float32",true,[1,8,9,9],[1,8,9,9],1,1,4,[3,3],[1,1],'
    "[1,1],[1,1]]",
    "stem_conv": '["stem","tf32","float32","float32",[1,3,9,9],[1,8,9,9],4,true,4,[3,3],[1,1],'
    "[1,1],[1,1]]",
    "gemm": '["tf32","float32",64,81,576,1,2,576,0,true,false,4,[64,81,5184,81,9,64,true,[1,9,9],'
    "[1,9,9],[1,3,3],[1,1,1],[0,1,1],[1,1,1],false]]",
    "row_norm": '["rows","LayerNormalization",128,768]',
}
"""A problem of each template as format 2 had it."""

VALUES = {
    "attention": (2, 1, 4, 32),
    "grouped_conv": (4, 32, 3),
    "stem_conv": (4, 16, 16, 32, 2),
    "gemm": (64, 64, 16, 64, 1, 5, 32, True, False, True, False),
    "row_norm": (32, 8),
}
NEWER = {
    "byte_gemm",
    "channels_last_conv",
    "depthwise_conv",
    "four_bit_gemm",
    "group_norm",
    "recurrence",
    "skinny_gemm",
    "squeeze_excite",
}
"""Templates that format 2 did not have."""

MEASURED = [name for name in GROUPS if BY_NAME[name].headers]


def test_every_measured_template_is_here():
    named = {template.name for template in TEMPLATES if template.headers}
    assert named - NEWER == set(MEASURED) == set(KEYS)


@pytest.mark.parametrize("name", MEASURED)
def test_a_list_has_the_fields_of_its_template(name: str):
    key = BY_NAME[name].key(problem_in(name, GROUPS[name](), TARGET), TARGET)
    fields = problem_fields(positional.named_problem(KEYS[name]))
    assert [*fields] == ["template", *key]
    assert fields["template"] == name


@pytest.mark.parametrize("name", MEASURED)
def test_a_listed_config_is_the_same_config(name: str):
    template = BY_NAME[name]
    kind: Any = template.config_type
    config = kind(*VALUES[name])
    assert positional.named_config(name, VALUES[name]) == config_fields(config)
    assert template.config(config_fields(config)) == config


def test_values_of_another_form_are_refused():
    with pytest.raises(ArtifactError, match=r"does not have the 3 values of a row_norm"):
        positional.named_problem('["rows","LayerNormalization",128]')
    with pytest.raises(ArtifactError, match="more values than a grouped_conv"):
        positional.named_config("grouped_conv", (1, 2, 3, 4))


def test_databases_and_results_of_format_2_are_read(tmp_path: Path):
    lines = [json.dumps({"format": 2, "device": "d"})]
    for name, key in KEYS.items():
        tiles = [[VALUES[name], 1.0, None]]
        entry = {"key": key, "device": "d", "version": "v", "tiles": tiles}
        lines.append(json.dumps(entry | {"context": [VALUES[name], "model", 0.5]}))
    (tmp_path / "old").write_text("\n".join(lines) + "\n")
    found = database.load(tmp_path / "old")
    assert len(found.entries) == len(KEYS)
    assert all(entry.context is not None for entry in found.entries)
    database.save(tmp_path / "new", found)
    assert {e.key: e for e in database.load(tmp_path / "new").entries} == {
        e.key: e for e in found.entries
    }
    head = {"arch": "sm_90", "device": "d", "compiler": "c", "format": 2}
    line = {"key": KEYS["gemm"], "tile": VALUES["gemm"], "version": "v", "warm": 1.0}
    (tmp_path / "results").write_text(f"{json.dumps(head)}\n{json.dumps(line)}\n")
    _, (result,) = results.load_results(tmp_path / "results")
    assert result.key == positional.named_problem(KEYS["gemm"])
    assert result.config == positional.named_config("gemm", VALUES["gemm"])


def test_every_shipped_config_is_one_of_its_template():
    shipped = database.load(Path(database.__file__).parent / "sm_90.jsonl")
    assert len(shipped.entries) >= 1637
    for entry in shipped.entries:
        name = str(problem_fields(entry.key)["template"])
        assert [*problem_fields(entry.key)] == ["template", *positional.PROBLEMS[name]]
        for measured in entry.configs:
            config = BY_NAME[name].config(measured.config)
            assert config_fields(config) == measured.config
