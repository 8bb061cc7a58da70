"""Golden IR: CHECK comments inside the kernel under test, matched against one compiler stage."""

import inspect

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from engine.compiler import lang as k
from engine.context import table


@table
class Bodies:
    pos: k.vec3
    inv_mass: float
    unused: k.mat33


@k.func
def half(x: float):
    return 0.5 * x


def early_exit_becomes_a_branch(n: int, out: k.array(dtype=float)):
    # stage: hir
    # CHECK: [[I:%.*]] = tid axis=0 ndim=1 : int32
    # CHECK: [[PAST:%.*]] = ge [[I]], {{.*}} : bool
    # CHECK: if [[PAST]] {
    # CHECK-NEXT: return
    # CHECK-NEXT: } else {
    # CHECK: store
    i = k.tid()
    if i >= n:
        return
    out[i] = 1.0


def calls_are_inlined(out: k.array(dtype=float)):
    # stage: mir
    # CHECK: [[X:%[0-9]+]] = load {{.*}} : float32
    # CHECK-NOT: call
    # CHECK: [[Y:%[0-9]+]] = mul {{.*}}[[X]]{{.*}} : float32
    # CHECK: store {{.*}}[[Y]]
    i = k.tid()
    out[i] = half(out[i])


def products_and_sums_contract(out: k.array(dtype=float), a: float, b: float):
    # stage: mir
    # CHECK: fma {{.*}} : float32
    # CHECK-NOT: mul
    # CHECK-NOT: add
    i = k.tid()
    out[i] = out[i] * a + b


def aggregates_become_scalars(v: k.array(dtype=k.vec3)):
    # stage: mir
    # CHECK-NOT: vec3
    # CHECK: load {{.*}}offset=4{{.*}} : float32
    # CHECK-NOT: load
    # CHECK: store {{.*}}offset=0
    i = k.tid()
    v[i].x = v[i].y


def only_touched_planes_are_parameters(b: Bodies):
    # stage: mir
    # CHECK-NOT: field.pos.plane.0
    # CHECK: field.pos.plane.2
    # CHECK-NOT: field.unused
    # CHECK: load {{.*}}array='b.pos' layout='planes'
    i = k.tid()
    b.pos[i].z = b.pos[i].z * b.inv_mass[i]


def constant_loops_unroll(out: k.array(dtype=float)):
    # stage: hir
    # CHECK-NOT: for
    # CHECK: mul {{.*}} : float32
    # CHECK: mul {{.*}} : float32
    # CHECK-NOT: mul
    # CHECK: store
    x = out[0]
    for _ in range(2):
        x = x * 3.0
    out[0] = x


def loops_have_one_latch(out: k.array(dtype=int), n: int):
    # stage: mir
    # CHECK-NOT: break
    # CHECK-NOT: continue
    # CHECK: for {{.*}}exit={{.*}} {
    # CHECK-NOT: break
    # CHECK-NOT: continue
    s = 0
    for j in range(n):
        if j == 3:
            continue
        if s > 100:
            break
        s += j
    out[0] = s


def own_element_is_stored_plainly(own: k.array(dtype=float), shared: k.array(dtype=float)):
    # stage: hir
    # CHECK: tid
    # CHECK-NOT: atomic
    # CHECK: store
    # CHECK: atomic {{.*}}op='add'
    i = k.tid()
    own[i] += 1.0
    shared[0] += 1.0


def strict_arithmetic_reaches_llvm(out: k.array(dtype=float), a: float):
    # stage: llvm
    # CHECK-NOT: fast
    # CHECK: call float @llvm.fma.f32
    # CHECK: fdiv float
    # CHECK-NOT: fast
    i = k.tid()
    out[i] = (out[i] * a + a) / a


def strict_arithmetic_reaches_ptx(out: k.array(dtype=float), a: float):
    # stage: ptx
    # CHECK: .visible .entry strict_arithmetic_reaches_ptx_kernel(
    # CHECK: ld.global.b32
    # CHECK: fma.rn.f32
    # CHECK: div.rn.f32
    # CHECK: sqrt.rn.f32
    # CHECK-NOT: approx
    # CHECK: st.global.b32
    i = k.tid()
    out[i] = k.sqrt((out[i] * a + a) / a)


def products_and_sums_stay_apart_on_a_gpu(out: k.array(dtype=float), a: float, b: float):
    # stage: ptx
    # CHECK: mul.rn.f32 [[P:%r[0-9]+]],
    # CHECK: min.f32 [[Q:%r[0-9]+]], {{.*}}
    # CHECK: add.rn.f32 {{.*}}
    # CHECK-NOT: fma
    i = k.tid()
    out[i] = k.min(out[i] * a, a) + b


def threads_beyond_the_launch_do_nothing(out: k.array(dtype=int)):
    # stage: ptx
    # CHECK: mul.wide.u32 [[START:%rd[0-9]+]], {{.*}}
    # CHECK: add.s64 [[I:%rd[0-9]+]], [[START]]
    # CHECK: setp.ge.s64 [[P:%p[0-9]+]], [[I]]
    # CHECK-NEXT: @[[P]] bra
    i = k.tid()
    out[i] = i


def atomics_on_a_gpu(out: k.array(dtype=float), n: k.array(dtype=int)):
    # stage: ptx
    # CHECK: atom.global.add.f32
    # CHECK: atom.relaxed.gpu.global.cas.b32
    # CHECK: atom.global.max.s32
    k.atomic_add(out, 0, 1.0)
    k.atomic_max(out, 1, 2.0)
    k.atomic_max(n, 0, 3)


def threads_share_tiles(x: k.array(dtype=float), y: k.array(dtype=float)):
    # stage: block
    # CHECK: [[THREAD:%[0-9]+]] = block_value {{.*}}name='thread_id'
    # CHECK: [[FIRST:%[0-9]+]] = eq [[THREAD]]
    # CHECK: [[TILE:%[0-9]+]] = local at=0 shared=True
    # CHECK-NOT: barrier
    # CHECK: while {
    # CHECK: local_store [[TILE]]
    # CHECK: barrier scope='block'
    # CHECK: [[ELEMENT:%[0-9]+]] = local_load [[TILE]]
    # CHECK-NOT: while
    # CHECK: if [[FIRST]] {
    # CHECK: [[OLD:%[0-9]+]] = atomic {{.*}}[[ELEMENT]] array='y'
    # CHECK: local_store [[PASSED:%[0-9]+]]{{.*}}, [[OLD]]
    # CHECK: barrier scope='block'
    # CHECK: local_load [[PASSED]]
    t = k.tile_load(x, shape=64, bounds_check=False)
    n = k.atomic_add(y, 0, t[5])
    k.tile_store(y, t * n, offset=1)


GOLDEN = [
    early_exit_becomes_a_branch, calls_are_inlined, products_and_sums_contract, aggregates_become_scalars,
    only_touched_planes_are_parameters, constant_loops_unroll, loops_have_one_latch, own_element_is_stored_plainly,
    strict_arithmetic_reaches_llvm, strict_arithmetic_reaches_ptx, products_and_sums_stay_apart_on_a_gpu,
    threads_beyond_the_launch_do_nothing, atomics_on_a_gpu, threads_share_tiles,
]  # fmt: skip


def check(text: str, source: str, tmp_path) -> None:
    """Runs the CHECK lines of `source` over `text`."""
    checks = tmp_path / "checks.txt"
    checks.write_text(source)
    options = Options(str(checks))
    matcher = Matcher(options, FInput("stage", text), Parser.from_opts(options))
    assert matcher.run() == 0, text


@pytest.mark.parametrize("fn", GOLDEN, ids=[fn.__name__ for fn in GOLDEN])
def test_golden(fn, tmp_path):
    source = inspect.getsource(fn)
    stage = source.split("# stage: ")[1].split("\n")[0]
    check(str(k.kernel(fn).stages[stage]), source, tmp_path)


def test_a_wrong_expectation_fails(tmp_path):
    with pytest.raises(AssertionError):
        check(str(k.kernel(calls_are_inlined).stages["mir"]), "# CHECK: no such op", tmp_path)


def test_lowering_twice_gives_the_same_text():
    first, second = (k.kernel(loops_have_one_latch) for _ in range(2))
    for stage in ("hir", "mir", "llvm"):
        assert str(first.stages[stage]) == str(second.stages[stage])
