"""ModelBuilder: what ends up in the Model, masses against sums done by hand, joints, worlds, texts for bad input."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SceneError
from engine.geom import inertia
from engine.geom.hull import convex_hull
from engine.geom.pose import as_pose, pose_multiply, quat_from_matrix, quat_to_matrix
from engine.geom.shapes import ShapeType
from engine.sim.builder import ModelBuilder
from engine.sim.builder_records import JointDof
from engine.state.schema import UNLIMITED, BodyFlag, DriveMode, JointType, ShapeFlag

CUBE = np.array(list(itertools.product((-0.5, 0.5), repeat=3)))
CUBE_FACES = convex_hull(CUBE).triangles()
H = np.sqrt(0.5)
finite = st.floats(-3.0, 3.0)
poses = st.builds(
    lambda p, q: as_pose((p, q)),
    st.lists(finite, min_size=3, max_size=3),
    st.lists(finite, min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1),
)


def one_body(**options) -> tuple[ModelBuilder, int]:
    b = ModelBuilder()
    return b, b.add_body(label="crate", **options)


# -- bodies and masses -------------------------------------------------------------------------------------------------


def test_the_contract_example():
    b = ModelBuilder(up_axis="z", gravity=-9.81)
    body = b.add_body(xform=((0, 0, 1), (0, 0, 0, 1)))
    b.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5, density=1000.0, mu=0.5, restitution=0.0)
    b.add_ground_plane()
    m = b.finalize(device="cpu")
    assert (m.nbody, m.nshape, m.njoint, m.nworld, m.up_axis) == (1, 2, 0, 1, "z")
    np.testing.assert_allclose(m.gravity.numpy(), [[0, 0, -9.81]], rtol=1e-7)
    np.testing.assert_array_equal(m.body_q.numpy(), [[0, 0, 1, 0, 0, 0, 1]])
    assert m.body_mass.numpy()[0] == 1000.0 and m.body_inv_mass.numpy()[0] == np.float32(1e-3)
    np.testing.assert_allclose(m.body_inertia.numpy()[0], np.eye(3) * 1000 / 6, rtol=1e-6)
    np.testing.assert_allclose(m.body_inv_inertia.numpy()[0], np.eye(3) * 6 / 1000, rtol=1e-6)
    assert m.shape_type.numpy().tolist() == [ShapeType.BOX, ShapeType.PLANE]
    assert m.shape_body.numpy().tolist() == [0, -1]
    assert m.body_label == ("body_0",) and m.shape_label == ("shape_0", "ground")
    assert m.shape_radius.numpy()[0] == pytest.approx(np.sqrt(0.75)) and m.shape_radius.numpy()[1] == UNLIMITED


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(poses, st.sampled_from(["box", "sphere", "capsule", "cone"]), st.floats(1, 5000)),
        min_size=1,
        max_size=4,
    )
)
def test_mass_of_a_compound_is_the_sum_of_its_parts(parts):
    b, body = one_body()
    solids = []
    for pose, kind, density in parts:
        if kind == "box":
            b.add_shape_box(body, pose, 0.3, 0.4, 0.5, density=density)
            solids.append(inertia.box(density, 0.3, 0.4, 0.5).moved(pose))
        elif kind == "sphere":
            b.add_shape_sphere(body, pose, 0.6, density=density)
            solids.append(inertia.sphere(density, 0.6).moved(pose))
        elif kind == "capsule":
            b.add_shape_capsule(body, pose, 0.2, 0.7, density=density)
            solids.append(inertia.capsule(density, 0.2, 0.7).moved(pose))
        else:
            b.add_shape_cone(body, pose, 0.2, 0.7, density=density)
            solids.append(inertia.cone(density, 0.2, 0.7).moved(pose))
    want, m = inertia.combined(solids), b.finalize()
    assert m.body_mass.numpy()[0] == pytest.approx(want.mass, rel=1e-6)
    np.testing.assert_allclose(m.body_com.numpy()[0], want.com, atol=1e-5)
    np.testing.assert_allclose(m.body_inertia.numpy()[0], want.inertia, atol=1e-6 * want.inertia.max())
    product = m.body_inv_inertia.numpy()[0].astype(float) @ want.inertia
    np.testing.assert_allclose(product, np.eye(3), atol=1e-3)


def test_given_mass_scales_the_inertia_of_the_shapes():
    b, body = one_body(mass=2.0)
    b.add_shape_box(body, hx=0.1, hy=0.2, hz=0.3)
    m = b.finalize()
    assert m.body_mass.numpy()[0] == 2.0
    want = inertia.box(1.0, 0.1, 0.2, 0.3).with_mass(2.0).inertia
    np.testing.assert_allclose(m.body_inertia.numpy()[0], want, rtol=1e-6, atol=1e-9)


def test_given_centre_of_mass_moves_the_point_of_the_inertia():
    b, body = one_body(mass=1.0, com=(0, 0, -0.5))
    b.add_shape_sphere(body, radius=0.5)
    m = b.finalize()
    np.testing.assert_array_equal(m.body_com.numpy()[0], [0, 0, -0.5])
    np.testing.assert_allclose(np.diag(m.body_inertia.numpy()[0]), [0.1 + 0.25, 0.1 + 0.25, 0.1], rtol=1e-6)


def test_given_inertia_stands():
    b, body = one_body(mass=3.0, com=(1, 0, 0), inertia=(1, 2, 2.5))
    b.add_shape_sphere(body, radius=9.0)
    m = b.finalize()
    assert (m.body_mass.numpy()[0], m.body_com.numpy()[0].tolist()) == (3.0, [1, 0, 0])
    np.testing.assert_array_equal(m.body_inertia.numpy()[0], np.diag([1, 2, 2.5]))


def test_mass_of_a_shape_replaces_its_density():
    b, body = one_body()
    b.add_shape_box(body, mass=4.0)
    b.add_shape_box(body, ((2, 0, 0), (0, 0, 0, 1)), mass=12.0, density=1.0)
    m = b.finalize()
    assert m.body_mass.numpy()[0] == 16.0 and m.body_com.numpy()[0, 0] == 1.5


def test_shapes_of_density_zero_add_no_mass():
    b, body = one_body()
    b.add_shape_box(body)
    b.add_shape_box(body, ((0, 0, 9), (0, 0, 0, 1)), density=0.0)
    np.testing.assert_array_equal(b.finalize().body_com.numpy(), [[0, 0, 0]])


def test_mass_without_extent_is_a_ball_with_a_warning():
    b, _ = one_body(mass=1000 * 4 / 3 * np.pi, com=(0, 1, 0))
    with pytest.warns(UserWarning, match="crate: mass without shapes and inertia; taken as a ball of 1000 kg/m³"):
        m = b.finalize()
    np.testing.assert_allclose(m.body_inertia.numpy()[0], np.eye(3) * 0.4 * m.body_mass.numpy()[0], rtol=1e-6)
    np.testing.assert_array_equal(m.body_com.numpy(), [[0, 1, 0]])


def test_kinematic_bodies_have_no_inverse_mass_and_need_none():
    b, body = one_body(kinematic=True, linear_velocity=(1, 2, 3), angular_velocity=(4, 5, 6))
    b.add_body(kinematic=True, mass=0.0)
    b.add_shape_plane(body)
    m = b.finalize()
    assert m.body_flags.numpy().tolist() == [BodyFlag.KINEMATIC] * 2
    assert not m.body_inv_mass.numpy().any() and not m.body_inv_inertia.numpy().any()
    np.testing.assert_array_equal(m.body_qd.numpy()[0], [1, 2, 3, 4, 5, 6])


def test_a_quaternion_of_another_length_is_normalised():
    b, body = one_body(xform=((0, 0, 0), (0, 0, 3, 4)))
    b.add_shape_box(body)
    np.testing.assert_allclose(b.finalize().body_q.numpy()[0, 3:], [0, 0, 0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("up, number", [("x", 0), ("Y", 1), ("z", 2)])
def test_up_axis_sets_gravity_and_the_ground(up, number):
    for value in (up, number):
        b = ModelBuilder(up_axis=value, gravity=-2.0)
        b.add_ground_plane(height=0.5)
        m = b.finalize()
        assert m.up_axis == up.lower()
        np.testing.assert_array_equal(m.gravity.numpy()[0], -2.0 * np.eye(3)[number])
        pose = m.shape_xform.numpy()[0].astype(float)
        np.testing.assert_allclose(quat_to_matrix(pose[3:])[:, 2], np.eye(3)[number], atol=1e-6)
        np.testing.assert_array_equal(pose[:3], 0.5 * np.eye(3)[number])
    assert ModelBuilder(gravity=(1, 2, 3)).gravity.tolist() == [1, 2, 3]


# -- shapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["add_shape_capsule", "add_shape_cylinder", "add_shape_cone"])
@pytest.mark.parametrize("axis", ["x", "y", "z", (0, 3, 0)])
def test_axis_turns_the_shape(method, axis):
    b, body = one_body()
    pose = as_pose((1, 2, 3, 0.1, 0.2, 0.3, 0.9))
    getattr(b, method)(body, pose, radius=0.1, half_height=2.0, axis=axis)
    m = b.finalize()
    direction = {"x": 0, "y": 1, "z": 2}.get(axis if isinstance(axis, str) else "y")
    shape_z = quat_to_matrix(m.shape_xform.numpy()[0, 3:].astype(float))[:, 2]
    np.testing.assert_allclose(shape_z, quat_to_matrix(pose[3:])[:, direction], atol=1e-6)
    local = quat_to_matrix(pose[3:]).T @ m.body_inertia.numpy()[0] @ quat_to_matrix(pose[3:])
    assert np.argmin(np.diag(local)) == direction  # least inertia about the long axis


def test_materials_groups_and_flags():
    b, body = one_body()
    b.add_shape_box(body, mu=0.7, restitution=0.2, mu_rolling=0.01, margin=0.02, group=4, mask=6)
    b.default_shape = type(b.default_shape)(mu=0.9, visible=False)
    b.add_shape_box(body, sensor=True, collide=False, mask=0xFFFFFFFF)
    m = b.finalize()
    np.testing.assert_allclose(m.shape_mu.numpy(), [0.7, 0.9], rtol=1e-6)
    np.testing.assert_allclose(m.shape_restitution.numpy(), [0.2, 0.0], rtol=1e-6)
    assert m.shape_group.numpy().tolist() == [4, 1] and m.shape_mask.numpy().tolist() == [6, 0xFFFFFFFF]
    assert m.shape_flags.numpy().tolist() == [ShapeFlag.COLLIDE | ShapeFlag.VISIBLE, ShapeFlag.SENSOR]


def test_equal_hulls_are_stored_once_and_laid_end_to_end():
    b, body = one_body()
    tetra = np.vstack([np.zeros(3), np.eye(3)])
    b.add_shape_convex_hull(body, points=CUBE)
    b.add_shape_convex_hull(body, points=tetra)
    b.add_shape_convex_hull(body, points=CUBE.tolist())
    b.add_shape_sphere(body)
    m = b.finalize()
    assert m.shape_hull.numpy().tolist() == [0, 1, 0, -1]
    assert (m.nhull, m.nhullvertex, m.nhullface, m.nhullindex, m.nhulledge) == (2, 12, 10, 36, 18)
    assert m.hull_vertex_start.numpy().tolist() == [0, 8] and m.hull_face_start.numpy().tolist() == [0, 6]
    for h, hull in enumerate((convex_hull(CUBE), convex_hull(tetra))):
        v0, f0, e0 = (getattr(m, f"hull_{part}_start").numpy()[h] for part in ("vertex", "face", "edge"))
        vertices = m.hull_vertex.numpy()[v0 : v0 + len(hull.vertices)]
        np.testing.assert_array_equal(vertices, hull.vertices.astype(np.float32))
        for f, loop in enumerate(hull.faces):
            start, count = m.hull_face_index_start.numpy()[f0 + f], m.hull_face_index_count.numpy()[f0 + f]
            assert m.hull_index.numpy()[start : start + count].tolist() == loop
            plane = m.hull_face_plane.numpy()[f0 + f]
            np.testing.assert_allclose(vertices[loop] @ plane[:3], plane[3], atol=1e-6)
        stored = [getattr(m, f"hull_edge_{c}").numpy()[e0 : e0 + len(hull.edges)] for c in ("v0", "v1", "f0", "f1")]
        np.testing.assert_array_equal(np.stack(stored, 1), hull.edges)
    np.testing.assert_allclose(m.hull_center.numpy(), [[0, 0, 0], [0.25] * 3], atol=1e-6)


def l_shape() -> tuple[np.ndarray, np.ndarray]:
    """Closed mesh of two unit cubes less one: an L, whose hull is heavier than itself."""
    outline = np.array([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], float)
    v = np.vstack([np.c_[outline, np.zeros(6)], np.c_[outline, np.ones(6)]])
    cap = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 5), (3, 4, 5)])
    side = [t for i in range(6) for t in ((i, (i + 1) % 6, 6 + (i + 1) % 6), (i, 6 + (i + 1) % 6, 6 + i))]
    return v, np.vstack([cap[:, ::-1], cap + 6, side])


def test_a_mesh_collides_as_its_hull_but_weighs_what_it_is():
    v, t = l_shape()
    b, body = one_body()
    with pytest.warns(UserWarning, match="bracket: triangle meshes do not collide yet, their convex hulls do") as seen:
        b.add_shape_mesh(body, vertices=v, triangles=t, density=10.0, label="bracket")
        b.add_shape_mesh(body, ((0, 0, 0), (0, 0, 0, 1)), v, t[:, ::-1].ravel(), density=10.0)  # inside out
    assert len(seen) == 1
    m = b.finalize()
    assert m.body_mass.numpy()[0] == pytest.approx(2 * 30.0)  # 3 m³ each; the hull has 3.5
    np.testing.assert_allclose(m.body_com.numpy()[0], [2.5 / 3, 2.5 / 3, 0.5], rtol=1e-6)
    assert m.nhull == 1 and m.nhullvertex == 10


def test_an_open_mesh_weighs_as_its_hull_with_a_warning():
    b, body = one_body()
    with pytest.warns(UserWarning) as seen:
        b.add_shape_mesh(body, vertices=CUBE, triangles=CUBE_FACES[1:], density=1.0)
    assert [str(w.message) for w in seen] == [
        "crate: triangle meshes do not collide yet, their convex hulls do",
        "crate: open mesh: mass and inertia are those of its convex hull",
    ]
    assert b.finalize().body_mass.numpy()[0] == pytest.approx(1.0)


def test_a_mesh_with_repeated_corners_is_closed():
    b, body = one_body()
    with pytest.warns(UserWarning) as seen:
        b.add_shape_mesh(body, vertices=CUBE[CUBE_FACES].reshape(-1, 3), triangles=np.arange(36), density=2.0)
    assert len(seen) == 1 and b.finalize().body_mass.numpy()[0] == pytest.approx(2.0)


# -- joints ------------------------------------------------------------------------------------------------------------


def two_bodies() -> ModelBuilder:
    b = ModelBuilder()
    for i in range(2):
        b.add_shape_sphere(b.add_body(xform=((i, 0, 0), (0, 0, 0, 1))), radius=0.1)
    return b


def test_layout_of_coordinates_and_dofs():
    b = two_bodies()
    b.add_joint_revolute(-1, 0, axis="y", limit_lower=-1, limit_upper=2, target_ke=5, target_kd=6, label="hinge")
    b.add_joint_ball(0, 1, target_ke=3, target_pos=(0.1, 0.2, 0.3), cone_upper=0.5)
    b.add_joint_fixed(0, 1)
    b.add_joint_d6(0, 1, linear_axes=[JointDof("x")], angular_axes=[JointDof("z", friction=2), JointDof("y")])
    b.add_joint_free(-1, 1)
    b.add_joint_distance(0, 1, min_distance=0.5, max_distance=2)
    b.add_joint_prismatic(0, 1, axis=(3, 0, 0), drive_mode=DriveMode.ACCELERATION, effort_limit=9, armature=0.1)
    m = b.finalize()
    assert m.joint_type.numpy().tolist() == [1, 2, 3, 6, 4, 5, 0]
    assert m.joint_lin_count.numpy().tolist() == [0, 0, 0, 1, 0, 1, 1]
    assert m.joint_ang_count.numpy().tolist() == [1, 3, 0, 2, 0, 0, 0]
    assert m.joint_qd_start.numpy().tolist() == [0, 1, 4, 4, 7, 7, 8]
    assert m.joint_q_start.numpy().tolist() == [0, 1, 5, 5, 8, 8, 9]
    assert (m.njoint, m.ndof, m.ncoord) == (7, 9, 10)
    assert m.joint_label[:2] == ("hinge", "joint_1")
    axes = m.joint_axis.numpy()
    np.testing.assert_array_equal(axes[[0, 1, 2, 3, 4, 5, 6, 8]], np.eye(3)[[1, 0, 1, 2, 0, 2, 1, 0]])
    assert m.joint_limit_lower.numpy()[[0, 1, 7]].tolist() == [-1, -UNLIMITED, 0.5]
    assert m.joint_limit_upper.numpy()[[0, 1, 7]].tolist() == [2, UNLIMITED, 2]
    np.testing.assert_allclose(m.joint_target_pos.numpy()[1:4], [0.1, 0.2, 0.3], rtol=1e-6)
    assert m.joint_drive_mode.numpy().tolist() == [0] * 8 + [1]
    assert m.joint_effort_limit.numpy()[[0, 8]].tolist() == [UNLIMITED, 9]
    assert m.joint_cone_upper.numpy()[1] == 0.5 and m.joint_friction.numpy()[5] == 2
    np.testing.assert_array_equal(m.control().joint_target_pos.numpy(), m.joint_target_pos.numpy())


def test_coordinates_at_the_start_are_those_of_the_poses():
    angle = 2.5
    turned = (0, 0, np.sin(angle / 2), np.cos(angle / 2))
    b = ModelBuilder()
    for pose, linear, angular in (
        (((1, 0, 0), (0, 0, 0, 1)), (0, 0, 0), (0, 0, 0.5)),
        (((1, 2, 0), turned), (0, 0, 0.25), (0, 0, 3)),
    ):
        b.add_shape_sphere(b.add_body(pose, linear_velocity=linear, angular_velocity=angular), radius=0.1)
    b.add_joint_revolute(0, 1, axis="z")
    b.add_joint_prismatic(0, 1, axis="y")
    b.add_joint_ball(0, 1)
    b.add_joint_distance(0, 1)
    m = b.finalize()
    np.testing.assert_allclose(m.joint_q.numpy(), [angle, 2, *turned, 2], rtol=1e-6, atol=1e-7)
    # where the child is, the parent's material moves at 0.5 · 2 m/s along −x
    np.testing.assert_allclose(m.joint_qd.numpy(), [2.5, 0, 0, 0, 2.5, 0], atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(poses, poses, poses, poses, st.floats(-3, 3), st.sampled_from(["revolute", "prismatic"]))
def test_the_world_as_child_keeps_the_coordinate(body_pose, frame, _, axis_turn, value, kind):
    """A joint whose child is the world, posed so that its coordinate is `value`, is turned round and reads it."""
    axis = quat_to_matrix(axis_turn[3:])[:, 0]
    half = value / 2
    motion = (
        np.append(np.zeros(3), [*(np.sin(half) * axis), np.cos(half)])
        if kind == "revolute"
        else np.append(value * axis, [0, 0, 0, 1])
    )
    world_frame = pose_multiply(pose_multiply(body_pose, frame), motion)
    b, body = one_body(xform=body_pose)
    b.add_shape_sphere(body)
    getattr(b, f"add_joint_{kind}")(body, -1, frame, world_frame, axis=axis)
    m = b.finalize()
    assert (m.joint_parent.numpy()[0], m.joint_child.numpy()[0]) == (-1, 0)
    assert m.joint_q.numpy()[0] == pytest.approx(value, abs=1e-5)


def test_joined_bodies_do_not_collide_unless_asked():
    b = two_bodies()
    b.add_shape_sphere(0)
    b.add_shape_box(-1)
    b.add_joint_ball(1, 0)
    b.add_joint_ball(-1, 0)  # the world's shapes keep colliding
    assert b.finalize().shape_filter_pair.numpy().tolist() == [1, 1 << 32 | 2]
    b.joints.clear()
    b.add_joint_ball(0, 1, collide_connected=True)
    b.add_shape_collision_filter_pair(3, 1)
    b.add_shape_collision_filter_pair(1, 3)
    m = b.finalize()
    assert m.shape_filter_pair.numpy().tolist() == [1 << 32 | 3]
    assert m.joint_collide.numpy().tolist() == [1]


# -- worlds ------------------------------------------------------------------------------------------------------------


def robot() -> ModelBuilder:
    b = ModelBuilder()
    for i in range(2):
        b.add_shape_sphere(b.add_body(xform=((0, 0, i + 1), (0, 0, 0, 1)), linear_velocity=(1, 0, 0), label=f"link{i}"))
    b.add_shape_box(-1, label="pedestal")
    b.add_joint_revolute(-1, 0, ((0, 0, 1), (0, 0, 0, 1)))
    b.add_joint_revolute(0, 1)
    b.add_shape_collision_filter_pair(0, 2)
    return b


def test_replicate_makes_flat_worlds():
    b = ModelBuilder()
    b.add_ground_plane()
    b.replicate(robot(), 3, spacing=(0, 5, 0))
    m = b.finalize()
    assert m.nworld == 3
    assert m.body_world.numpy().tolist() == [0, 0, 1, 1, 2, 2]
    assert m.shape_world.numpy().tolist() == [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert m.joint_world.numpy().tolist() == [0, 0, 1, 1, 2, 2]
    assert m.joint_parent.numpy().tolist() == [-1, 0, -1, 2, -1, 4] and m.joint_child.numpy().tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    np.testing.assert_array_equal(m.body_q.numpy()[:, 1], [0, 0, 5, 5, 10, 10])
    np.testing.assert_array_equal(m.joint_xform_p.numpy()[::2, 1], [0, 5, 10])
    assert m.shape_xform.numpy()[9, 1] == 10 and m.shape_body.numpy()[9] == -1
    assert m.body_label[3] == "world_1/link1" and m.shape_label[9] == "world_2/pedestal"
    pairs = sorted((k >> 32, k & 0xFFFFFFFF) for k in m.shape_filter_pair.numpy().tolist())
    assert pairs == sorted((a + 3 * w, c + 3 * w) for w in range(3) for a, c in ((1, 2), (1, 3)))


def test_a_moved_world_keeps_its_joints_and_turns_its_velocities():
    b = ModelBuilder()
    b.add_builder(robot(), ((1, 2, 3), (0, 0, H, H)))
    b.add_shape_sphere(b.add_body())
    m = b.finalize()
    assert m.body_world.numpy().tolist() == [0, 0, 1] and m.nworld == 2
    np.testing.assert_allclose(m.joint_q.numpy(), 0.0, atol=1e-6)
    np.testing.assert_allclose(m.body_qd.numpy()[0, :3], [0, 1, 0], atol=1e-6)


def test_labels_pose_types_and_determinism():
    assert robot().finalize().hash() == robot().finalize().hash()
    quat = quat_from_matrix(np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]]))
    np.testing.assert_allclose(quat, [0, 0, H, H])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot().finalize()


# -- bad input ---------------------------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
BAD_BODIES = [
    ({"xform": ((0, 0, NAN), (0, 0, 0, 1))}, "xform: not finite: [0.0, 0.0, nan]"),
    ({"xform": ((0, 0, 0), (0, 0, 0, 0))}, "xform: zero quaternion"),
    ({"xform": ((0, 0), (0, 0, 0, 1))}, "xform: expected 3 numbers, got 2"),
    ({"xform": 5}, "xform: expected a transform, (position, quaternion) or 7 numbers, got 5"),
    ({"mass": -1}, "mass: must be positive, got -1"),
    ({"mass": 0.0}, "mass: must be positive, got 0"),
    ({"mass": NAN}, "mass: not finite: [nan]"),
    ({"com": (0, INF, 0)}, "com: not finite: [0.0, inf, 0.0]"),
    ({"inertia": (1, 1, 3)}, "principal moments of inertia 1, 1, 3 violate the triangle inequality"),
    ({"inertia": (1, 0, 1)}, "principal moments of inertia must be positive, got 0, 1, 1"),
    ({"inertia": np.arange(9.0).reshape(3, 3)}, "inertia is not symmetric"),
    ({"inertia": (1, 2)}, "inertia has shape (2,), not (3, 3)"),
    ({"linear_velocity": (0, 0, NAN)}, "velocity: not finite: [0.0, 0.0, nan]"),
    ({"gravity_scale": INF}, "gravity_scale: not finite: [inf]"),
]


@pytest.mark.parametrize("options, text", BAD_BODIES, ids=[t for _, t in BAD_BODIES])
def test_bad_bodies(options, text):
    with pytest.raises(SceneError) as error:
        one_body(**options)
    assert str(error.value) == f"crate: {text}"


BAD_SHAPES = [
    (lambda b: b.add_shape_sphere(0, radius=0), "> radius must be positive, got 0"),
    (lambda b: b.add_shape_sphere(0, radius=NAN), "> radius is not finite: nan"),
    (lambda b: b.add_shape_box(0, hx=-1, label="lid"), "crate: shape 'lid': hx must be positive, got -1"),
    (lambda b: b.add_shape_box(-1, hz=0, label="floor"), "floor: hz must be positive, got 0"),
    (lambda b: b.add_shape_box(7), "shape_0: body 7 does not exist (1 bodies)"),
    (lambda b: b.add_shape_box(-2), "shape_0: body -2 does not exist (1 bodies)"),
    (lambda b: b.add_shape_box(None), "shape_0: body must be a body index, got None"),
    (lambda b: b.add_shape_box(0, density=-5), "> density must be at least 0, got -5"),
    (lambda b: b.add_shape_box(0, restitution=1.5), "> restitution must be in 0 … 1, got 1.5"),
    (lambda b: b.add_shape_box(0, mu=NAN), "> mu is not finite: nan"),
    (lambda b: b.add_shape_box(0, group=-1), "> group must be 32 bits, got -1"),
    (lambda b: b.add_shape_box(0, frcition=1), "> got an unexpected keyword argument 'frcition'"),
    (lambda b: b.add_shape_box(0, ((0, 0, 0), (0, 0, 0, 0))), "> zero quaternion"),
    (lambda b: b.add_shape_capsule(0, axis="w"), '> axis must be "x", "y", "z" or 3 numbers, got \'w\''),
    (lambda b: b.add_shape_plane(0), "> a plane has no mass: it must be static (body −1) or on a kinematic body"),
    (lambda b: b.add_shape_convex_hull(0, points=CUBE[:3]), "> no convex hull: all points lie in one plane"),
    (lambda b: b.add_shape_convex_hull(0), "> no points given"),
    (lambda b: b.add_shape_mesh(0, vertices=CUBE, triangles=[]), "> mesh has no faces"),
    (lambda b: b.add_shape_mesh(0, vertices=CUBE, triangles=[(0, 1, 8)]), "> mesh face index 8 is out of range 0 … 7"),
    (lambda b: b.add_shape_heightfield(0), "> heightfields are not supported yet; use a mesh or boxes"),
    (lambda b: b.add_shape_collision_filter_pair(0, 1), "collision filter: shape 0 does not exist (0 shapes)"),
]


@pytest.mark.parametrize("act, text", BAD_SHAPES, ids=[t for _, t in BAD_SHAPES])
def test_bad_shapes(act, text):
    b, _ = one_body()
    with pytest.raises(SceneError) as error:
        act(b)
    assert str(error.value) == text.replace("> ", "crate: shape 'shape_0': ")
    assert b.shape_count == 0


BAD_JOINTS = [
    (lambda b: b.add_joint_ball(0, 2), "> child 2 does not exist (2 bodies)"),
    (lambda b: b.add_joint_ball(-3, 1, label="elbow"), "elbow: parent -3 does not exist (2 bodies)"),
    (lambda b: b.add_joint_fixed(1, 1), "> parent and child are the same: body_1"),
    (lambda b: b.add_joint_fixed(-1, -1), "> parent and child are the same: world"),
    (lambda b: b.add_joint_revolute(0, 1, axis=(0, 0, 0)), "> zero axis"),
    (lambda b: b.add_joint_revolute(0, 1, limit_lower=1, limit_upper=-1), "> limit_lower 1 is above limit_upper -1"),
    (lambda b: b.add_joint_revolute(0, 1, limit_lower=NAN), "> limit_lower is not a number"),
    (lambda b: b.add_joint_revolute(0, 1, target_ke=-1), "> target_ke must be at least 0, got -1"),
    (lambda b: b.add_joint_revolute(0, 1, target_pos=INF), "> target_pos is not finite: inf"),
    (
        lambda b: b.add_joint_revolute(0, 1, stiffness=1),
        "> unknown option 'stiffness'; a joint axis has limit_lower, "
        "limit_upper, limit_ke, limit_kd, target_pos, target_vel, target_ke, target_kd, drive_mode, effort_limit, "
        "friction, armature",
    ),
    (
        lambda b: b.add_joint_ball(0, 1, limit_upper=1),
        "> a ball joint has cone_lower and cone_upper, no limit_lower and limit_upper",
    ),
    (lambda b: b.add_joint_ball(0, 1, cone_upper=-1), "> cone limits -1e+10 … -1 are empty"),
    (lambda b: b.add_joint_distance(0, 1, max_distance=-1), "> max_distance must be at least 0, got -1"),
    (
        lambda b: b.add_joint_d6(0, 1, linear_axes=[JointDof("x"), JointDof((1, 1, 0))]),
        "> the axes of a joint must be perpendicular to each other",
    ),
    (lambda b: b.add_joint_d6(0, -1), "> the child of a d6 joint must be a body; make the world its parent"),
    (lambda b: b.add_joint_fixed(0, 1, ((NAN, 0, 0), (0, 0, 0, 1))), "> not finite: [nan, 0.0, 0.0]"),
]


@pytest.mark.parametrize("act, text", BAD_JOINTS, ids=[t for _, t in BAD_JOINTS])
def test_bad_joints(act, text):
    b = two_bodies()
    with pytest.raises(SceneError) as error:
        act(b)
    assert str(error.value) == text.replace("> ", "joint_0: ")
    assert b.joint_count == 0


def test_a_body_without_mass_is_named_with_its_file():
    b = ModelBuilder(source="scene.usda")
    b.add_body(label="/World/ghost")
    with pytest.raises(SceneError) as error:
        b.finalize()
    assert str(error.value) == "scene.usda: /World/ghost: a dynamic body needs mass: shapes with a density, or mass="
    assert (error.value.path, error.value.prim) == ("scene.usda", "/World/ghost")


def test_too_small_for_single_precision():
    b, body = one_body()
    b.add_shape_sphere(body, radius=1e-9)
    with pytest.raises(SceneError, match="crate: mass or inertia is too small for single precision"):
        b.finalize()


@pytest.mark.parametrize("up", [3, "w", "-z", (0, 0, 1), None])
def test_bad_up_axis(up):
    with pytest.raises(SceneError):
        ModelBuilder(up_axis=up)


@pytest.mark.parametrize("count, xforms", [(0, ()), (2.5, ()), (2, [None])])
def test_bad_replicate(count, xforms):
    with pytest.raises(SceneError):
        ModelBuilder().replicate(robot(), count, xforms=xforms)


def test_joint_types_have_the_expected_numbers():
    assert [j.value for j in (JointType.PRISMATIC, JointType.REVOLUTE, JointType.BALL, JointType.FIXED)] == [0, 1, 2, 3]
