"""The field table is complete and consistent; the tables, their initial values and docs/state.md come from it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.compiler import types
from engine.sim.builder import ModelBuilder
from engine.state import document, schema
from engine.state.schema import FIELDS, TABLES, dims_of, fields_of, schema_hash
from engine.state.tables import Contacts, Control, ModelTable, State, compare, element

TYPES = dict(zip(TABLES, (ModelTable, State, Control, Contacts), strict=True))
FRAMELESS = {"float32", "int32", "uint32", "uint64"}
WITHOUT_UNIT = {"int32", "uint32", "uint64"}


def scene() -> ModelBuilder:
    b = ModelBuilder()
    for i in range(3):
        b.add_shape_box(b.add_body(((i, 0, 1), (0, 0, 0, 1)), linear_velocity=(i, 0, 0)))
    b.add_joint_revolute(0, 1, target_pos=0.25, target_vel=0.5)
    b.add_joint_ball(1, 2)
    b.add_shape_convex_hull(0, points=np.vstack([np.zeros(3), np.eye(3)]))
    return b


def test_rows_are_complete():
    assert not [n for n, c in Counter((f.table, f.name) for f in FIELDS).items() if c > 1]
    for f in FIELDS:
        assert f.table in TABLES and f.doc and f.writer, f
        assert types.components(element(f.dtype).ir_type) is not None, f
        assert f.unit or f.dtype in WITHOUT_UNIT, f"{f.name} lacks a unit"
        assert f.frame or f.dtype in FRAMELESS, f"{f.name} lacks a frame"
        if isinstance(f.init, str):
            assert f.init in ("model", "identity", "index"), f
        if f.init == "model":
            twin = next(m for m in fields_of("Model") if m.name == f.name)
            assert (twin.dtype, twin.dim, twin.unit) == (f.dtype, f.dim, f.unit)


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_fields_of_the_schema(name):
    rows = [(f, element(t).ir_type, d) for f, t, d in ((f.name, f.dtype, f.dim) for f in fields_of(name))]
    assert list(TYPES[name].ir_type.fields) == rows
    assert TYPES[name].ir_type.name == name
    assert set(dims_of(name)) <= set(document.SYMBOLS)


def test_initial_values():
    m = scene().finalize()
    control, contacts, state = m.control(), m.contacts(), m.state()
    for table in (control, contacts, state):
        for f in fields_of(type(table).__name__):
            got = getattr(table, f.name).numpy()
            want = (
                getattr(m, f.name).numpy()
                if f.init == "model"
                else np.arange(len(got))
                if f.init == "index"
                else np.broadcast_to(np.array(f.init, got.dtype), got.shape)
            )
            np.testing.assert_array_equal(got, want, err_msg=f.name)
    assert control.joint_target_pos.numpy()[0] == 0.25 and state.body_qd.numpy()[2, 0] == 2
    assert contacts.count["npoint"] == 4 * contacts.count["npair"]
    # planes of one table do not overlap: writing one field changes no other
    before = state.hash()
    state.body_f.fill_(1.0)
    assert [d.field for d in compare(state, m.state())] == ["body_f"] and state.hash() != before


def test_a_table_that_nobody_filled_starts_with_the_schema_values():
    from engine.state.model import Model

    m = Model({"nbody": 2, "nshape": 1, "njoint": 1, "ndof": 1}, {})
    np.testing.assert_array_equal(m.body_q.numpy(), [[0, 0, 0, 0, 0, 0, 1]] * 2)
    assert m.shape_mask.numpy()[0] == 0xFFFFFFFF and m.shape_body.numpy()[0] == -1
    assert m.joint_limit_upper.numpy()[0] == np.float32(schema.UNLIMITED)


def test_a_model_is_frozen():
    m = scene().finalize()
    for name in ("body_mass", "up_axis", "new"):
        with pytest.raises(AttributeError, match="a Model is immutable"):
            setattr(m, name, 1)
    with pytest.raises(AttributeError, match="a Model is immutable"):
        m.resize({"nbody": 9})
    with pytest.raises(AttributeError, match="Model has no field or attribute 'nbodies'"):
        _ = m.nbodies
    assert (m.nbody, m.njoint, m.ndof, m.ncoord) == (3, 2, 4, 5)


def test_the_hash_of_the_schema_covers_layout_not_words(monkeypatch):
    from dataclasses import replace

    old, first = schema_hash(), FIELDS[0]
    for change, same in (({"doc": "x"}, True), ({"name": "x"}, False), ({"dtype": "x"}, False), ({"dim": "x"}, False)):
        monkeypatch.setattr(schema, "FIELDS", (replace(first, **change), *FIELDS[1:]))
        assert (schema_hash() == old) is same, change


def test_compare_tells_where_and_how_much():
    a, b = (scene().finalize().state() for _ in range(2))
    assert compare(a, b) == []
    b.body_q.numpy()[1, 2] += 0.5
    b.body_q.numpy()[2, 0] += 0.25
    b.body_qd.numpy()[0, 5] = np.nan
    found = compare(a, b)
    assert [(d.field, d.index, d.largest, d.count) for d in found] == [("body_q", 1, 0.5, 2), ("body_qd", 0, np.inf, 1)]
    assert str(found[0]).startswith("body_q: 2 elements differ, first at 1: [1.0, 0.0, 1.0, ")
    assert [d.field for d in compare(a, b, tolerance=0.5)] == ["body_qd"]
    a.body_qd.numpy()[0, 5] = np.nan
    assert [d.field for d in compare(a, b)] == ["body_q"]
    with pytest.raises(TypeError, match="State cannot be compared with Control"):
        compare(a, scene().finalize().control())


def test_docs_are_up_to_date():
    text = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
    assert text == document.state_document(), "run `python -m engine.state.document > docs/state.md`"
