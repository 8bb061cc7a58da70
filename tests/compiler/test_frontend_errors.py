"""Every message of the front end: its text, and that the caret points at the user's token."""

import math

import pytest

from engine.compiler import lang as k
from engine.errors import CompileError

HOST = [1, 2]


def plain_python(x):
    return x


@k.struct
class Pair:
    left: float
    right: k.vec3


@k.func
def only_sometimes(x: float):
    if x > 0.0:
        return 1.0


@k.func
def recursive(n: int):
    return recursive(n)


@k.func
def takes_vec(v: k.vec3):
    return v.x


def unbound_branch(a: k.array(dtype=float)):
    i = k.tid()
    if i > 3:
        x = 1.0
    a[i] = x


def unbound_loop(a: k.array(dtype=float), n: int):
    for j in range(n):
        x = float(j)
    a[0] = x


def changed_type(a: k.array(dtype=float)):
    s = 0
    s = 1.5
    a[0] = float(s)


def mixed_scalars(a: k.array(dtype=float)):
    i = k.tid()
    a[i] = a[i] * i


def vec_product(a: k.array(dtype=k.vec3)):
    a[0] = a[0] * a[1]


def math_function(a: k.array(dtype=float)):
    a[0] = math.sqrt(a[0])


def python_function(a: k.array(dtype=float)):
    a[0] = plain_python(a[0])


def missing_name(a: k.array(dtype=float)):
    a[0] = lenght(a)  # noqa: F821


def missing_field(p: k.array(dtype=Pair)):
    x = p[0]
    x.lefft = 1.0


def missing_component(v: k.array(dtype=k.vec3)):
    v[0] = k.vec3(v[0].w)


def too_many_indices(a: k.array(dtype=float)):
    a[0, 1] = 2.0


def float_index(a: k.array(dtype=float)):
    a[0] = a[1.5]


def outside_vector(v: k.array(dtype=k.vec3)):
    v[0][3] = 1.0


def does_not_fit(a: k.array(dtype=k.uint8)):
    a[0] = 256


def fraction_into_int(a: k.array(dtype=int)):
    a[0] = 1.5


def kernel_returns(a: k.array(dtype=float)):
    return a[0]


def missing_return(a: k.array(dtype=float)):
    a[0] = only_sometimes(a[1])


def calls_itself(a: k.array(dtype=int)):
    a[0] = recursive(a[0])


def wrong_argument(a: k.array(dtype=float)):
    a[0] = takes_vec(a[0])


def wrong_count(a: k.array(dtype=float)):
    a[0] = takes_vec(a[0], a[1])


def no_try(a: k.array(dtype=float)):
    try:
        a[0] = 1.0
    finally:
        pass


def no_list(a: k.array(dtype=float)):
    x = [1, 2]
    a[0] = float(x[0])


def loop_over_list(a: k.array(dtype=float)):
    for x in a:
        a[0] = x


def zero_step(a: k.array(dtype=float), n: int):
    for j in range(0, n, 0):
        a[j] = 0.0


def matrix_of_vectors(m: k.array(dtype=k.mat33), v: k.vec3):
    m[0] = k.mat33(v, v, v)


def truth_of_vector(v: k.array(dtype=k.vec3)):
    if v[0]:
        v[0] = k.vec3()


def ternary_types(a: k.array(dtype=float)):
    i = k.tid()
    a[0] = a[0] if i > 0 else k.float64(1.0)


def unpack_count(v: k.array(dtype=k.vec3), a: k.array(dtype=float)):
    x, y = v[0]
    a[0] = x + y


def atomic_on_value(a: k.array(dtype=float)):
    k.atomic_add(a[0], 0, 1.0)


def host_object(a: k.array(dtype=int)):
    a[0] = HOST


def slice_step(a: k.array(dtype=float)):
    b = a[::0]
    b[0] = 0.0


def dynamic_slice(v: k.array(dtype=k.vec3), n: int):
    v[0][n:] = 0.0


def slice_of_number(a: k.array(dtype=float)):
    x = a[0]
    a[0] = x[1:]


@k.func
def takes_ref(x: k.ref[k.float32]):
    x += 1.0


def ref_to_value(a: k.array(dtype=float)):
    takes_ref(a[0] + 1.0)


def vector_without_length(a: k.array(dtype=float)):
    k.vector()


def vector_mixed(a: k.array(dtype=float)):
    k.vector(1.0, 2)


def vector_count(a: k.array(dtype=float)):
    k.vector(1.0, 2.0, length=5)


def matrix_without_shape(a: k.array(dtype=float)):
    k.matrix(1.0, 2.0)


def static_raises(a: k.array(dtype=float)):
    a[0] = k.static(1 // 0)


def static_of_runtime(a: k.array(dtype=float)):
    x = a[0]
    a[0] = k.static(x)


def printf_count(a: k.array(dtype=float)):
    k.printf("%d %d", 1)


def printf_vector(v: k.array(dtype=k.vec3)):
    k.printf("%f", v[0])


def expects_other_type(a: k.array(dtype=float), n: int):
    k.expect_eq(a[0], n)


def not_unpackable(a: k.array(dtype=float)):
    x, y = a[0]
    a[0] = x + y


CASES = [
    (unbound_branch, "'x' may have no value here: not every path before this line assigns it", "x"),
    (unbound_loop, "'x' may have no value here", "x"),
    (changed_type, "'s' holds int32 and cannot become float32; convert it: int32(…), or use another name", "s = 1.5"),
    (mixed_scalars, "'*' does not take float32 and int32; convert one of them, as in int32(…)", "a[i] * i"),
    (vec_product, "'*' does not take vec3 and vec3; use dot(), cross() or cw_mul()", "a[0] * a[1]"),
    (math_function, "'sqrt' is a Python function that kernels cannot call; did you mean 'engine.sqrt'?",
     "math.sqrt(a[0])"),
    (python_function, "'plain_python' is a Python function that kernels cannot call; decorate it with @engine.func",
     "plain_python(a[0])"),
    (missing_name, "name 'lenght' is not defined", "lenght"),
    (missing_field, "Pair has no field 'lefft'; did you mean 'left'?", "x.lefft"),
    (missing_component, "vec3 has no attribute 'w'", "v[0].w"),
    (too_many_indices, "array(dtype=float32) has 1 dimensions, 2 indices are given", "a[0, 1]"),
    (float_index, "an index is a whole number, not float32", "a[1.5]"),
    (outside_vector, "index 3 is outside vec3, which has 3", "v[0][3]"),
    (does_not_fit, "256 does not fit uint8 (0 … 255)", "a[0] = 256"),
    (fraction_into_int, "float32 is assigned to a place that holds int32", "a[0] = 1.5"),
    (kernel_returns, "a kernel returns nothing; write the result into an array", "return a[0]"),
    (missing_return, "'only_sometimes' does not return a value on every path", "def only_sometimes"),
    (calls_itself, "'recursive' calls itself; recursion is not part of the kernel language", "recursive(n)"),
    (wrong_argument, "takes_vec(): 'v' is vec3, got float32", "takes_vec(a[0])"),
    (wrong_count, "takes_vec() takes 1 arguments, 2 are given", "takes_vec(a[0], a[1])"),
    (no_try, "'try' is not part of the kernel language", "try:"),
    (no_list, "a list is not part of the kernel language", "[1, 2]"),
    (loop_over_list, "a loop runs over range(…) or a tuple known while compiling", "a"),
    (zero_step, "the step of range() must not be zero", "range(0, n, 0)"),
    (matrix_of_vectors, "mat33() of vectors could mean rows or columns; use matrix_from_rows or matrix_from_cols",
     "k.mat33(v, v, v)"),
    (truth_of_vector, "vec3 is neither true nor false", "v[0]"),
    (ternary_types, "the two sides of 'if … else' are float32 and float64", "a[0] if i > 0 else k.float64(1.0)"),
    (unpack_count, "3 values are unpacked into 2 names", "x, y = v[0]"),
    (atomic_on_value, "atomic_add() works on an array element", "k.atomic_add(a[0], 0, 1.0)"),
    (host_object, "[1, 2] (list) is not a value that a kernel can compute with", "a[0] = HOST"),
    (slice_step, "Slice step cannot be zero", "a[::0]"),
    (dynamic_slice, "the bounds of a slice of a vector or matrix must be known while compiling", "v[0][n:]"),
    (slice_of_number, "float32 cannot be sliced", "x[1:]"),
    (ref_to_value, "'x' is a reference and needs a variable, an array element or a part of one", "a[0] + 1.0"),
    (vector_without_length, "the `length` argument must be specified when zero-initializing a vector", "k.vector()"),
    (vector_mixed, "all values given when constructing a vector must have the same type", "k.vector(1.0, 2)"),
    (vector_count, "incompatible number of values given (2) when constructing a vector of length 5", "k.vector(1.0"),
    (matrix_without_shape, "the `shape` argument must be specified when initializing a matrix by value",
     "k.matrix(1.0"),
    (static_raises, "static(): ZeroDivisionError: integer division or modulo by zero", "k.static(1 // 0)"),
    (static_of_runtime, "static(): a float32 is not known while compiling", "k.static(x)"),
    (printf_count, "printf(): '%d' has no value", 'k.printf("%d %d", 1)'),
    (printf_vector, "printf() prints numbers, not vec3; use print(), or give its components", "k.printf"),
    (expects_other_type, "expect_eq() compares values of one type, not float32 and int32", "k.expect_eq(a[0], n)"),
    (not_unpackable, "this value cannot be unpacked", "x, y = a[0]"),
]  # fmt: skip


def lower(fn):
    kernel = k.kernel(fn)
    return kernel.lower([t for _, t in kernel.params])


@pytest.mark.parametrize(("fn", "message", "token"), CASES, ids=[fn.__name__ for fn, _, _ in CASES])
def test_message_and_caret(fn, message, token):
    with pytest.raises(CompileError) as caught:
        lower(fn)
    error = caught.value
    assert message in str(error.msg)
    assert error.filename.endswith("test_frontend_errors.py")
    start = error.offset - 1
    assert error.text[start:].startswith(token), (error.text, error.offset)


def test_no_frames_of_the_compiler_in_the_message():
    with pytest.raises(CompileError) as caught:
        lower(mixed_scalars)
    assert "compiler" not in str(caught.value)


def test_is_every_kind_of_error_that_users_catch():
    for kind in (SyntaxError, RuntimeError, TypeError, ValueError):
        with pytest.raises(kind):
            lower(mixed_scalars)


def test_unannotated_parameter_names_it():
    @k.kernel
    def nameless(a):
        pass

    with pytest.raises(CompileError, match="parameter 'a' has no type annotation"):
        _ = nameless.params


def test_one_broken_kernel_does_not_affect_another():
    def fine(a: k.array(dtype=float)):
        a[k.tid()] = 1.0

    with pytest.raises(CompileError):
        lower(mixed_scalars)
    assert lower(fine).body.ops
