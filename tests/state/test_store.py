"""Saving and loading: the same bits, fields matched by name, damaged and foreign files refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.context.table import make_table
from engine.errors import Error
from engine.sim.builder import ModelBuilder
from engine.state import store
from engine.state.model import Model
from engine.state.tables import compare, element


def scene() -> ModelBuilder:
    b = ModelBuilder(up_axis="y")
    for i in range(3):
        b.add_shape_box(b.add_body(((i, 0, 1), (0, 0, 0, 1)), label=f"crate {i} ×"))
    b.add_joint_ball(0, 1)
    b.add_shape_convex_hull(2, points=np.vstack([np.zeros(3), np.eye(3)]))
    b.add_ground_plane()
    return b


@pytest.fixture
def saved(tmp_path):
    m = scene().finalize()
    s, c = m.state(), m.contacts(8)
    rng = np.random.default_rng(1)
    for table in (s, c):
        for _, array in table.fields():
            n = array.numpy()
            n[...] = rng.integers(0, 100, n.shape) if n.dtype.kind in "iu" else rng.normal(size=n.shape)
    path = tmp_path / "run.npz"
    store.save(path, m, {"State": s, "Control": m.control(), "Contacts": c}, {"time": 1.5, "frame": 90})
    return path, m, s, c


def edit(path, **header) -> None:
    """Rewrites the file with some entries of its header changed."""
    with np.load(path) as file:
        arrays = {k: file[k] for k in file.files}
    head = json.loads(str(arrays.pop("weft")))
    head.update(header)
    np.savez(path, weft=np.array(json.dumps(head)), **arrays)


def test_everything_comes_back_to_the_same_bits(saved):
    path, m, s, c = saved
    got = store.load(path)
    assert got.info == {"time": 1.5, "frame": 90}
    model, state, control = store.restored(got)
    assert isinstance(model, Model)
    assert model.hash() == m.hash() and state.hash() == s.hash() and compare(control, m.control()) == []
    assert (model.body_label, model.shape_label, model.joint_label) == (m.body_label, m.shape_label, m.joint_label)
    assert (model.up_axis, model.nworld) == ("y", 1)
    contacts = model.contacts(1)
    position = contacts.point_position
    assert got.restore("Contacts", contacts) == []
    assert contacts.hash() == c.hash() and contacts.point_position is position and len(position) == 32


def test_the_file_is_replaced_whole(saved, tmp_path):
    path, m, *_ = saved
    before = path.read_bytes()
    with pytest.raises(TypeError):
        store.save(path, m, {}, {"bad": object()})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(Error, match="cannot be written"):
        store.save(tmp_path / "no" / "run.npz", m, {})


def test_fields_are_matched_by_name(saved):
    """A table of another schema: one field more, one less, another order."""
    path, *_ = saved
    Other = make_table(
        "State", [("extra", element("float32"), "nbody"), ("body_qd", element("spatial_vector"), "nbody")]
    )
    other = Other(3)
    other.extra.fill_(7.0)
    got = store.load(path)
    unmatched = got.restore("State", other)
    np.testing.assert_array_equal(other.body_qd.numpy(), got.arrays["State.body_qd"])
    assert other.extra.numpy().tolist() == [7, 7, 7]
    assert {"extra", "body_q", "body_f"} <= set(unmatched) and "body_qd" not in unmatched


def test_a_field_of_another_type_is_refused(saved):
    path, *_ = saved
    other = make_table("State", [("body_q", element("vec3"), "nbody")])(3)
    with pytest.raises(Error, match=r"run.npz: State.body_q is float32\[3, 7\], expected float32\[3, 3\]"):
        store.load(path).restore("State", other)
    with pytest.raises(Error, match="run.npz: holds no Particles, only Model, State, Control, Contacts"):
        store.load(path).restore("Particles", other)


def test_a_newer_format_is_refused(saved):
    path, *_ = saved
    edit(path, format=99)
    with pytest.raises(Error, match="run.npz: has format 99, this version reads formats up to 1"):
        store.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"#usda 1.0", b"PK\x03\x04 not really", None], ids=["empty", "text", "zip", "cut"]
)
def test_other_files_are_refused(saved, tmp_path, content):
    path, *_ = saved
    other = tmp_path / "other.npz"
    whole = path.read_bytes()
    other.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(Error, match="other.npz: is not a saved simulation, or is damaged"):
        store.load(other)


def test_foreign_npz_and_missing_file(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with pytest.raises(Error, match="a.npz: is not a saved simulation"):
        store.load(tmp_path / "a.npz")
    with pytest.raises(Error, match="gone.npz: cannot be read: No such file"):
        store.load(tmp_path / "gone.npz")


def test_nothing_in_a_file_is_executed(tmp_path):
    np.savez(tmp_path / "evil.npz", weft=np.array([print], dtype=object))
    with pytest.raises(Error, match="is not a saved simulation"):
        store.load(tmp_path / "evil.npz")
