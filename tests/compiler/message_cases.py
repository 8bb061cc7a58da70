"""What kernels can get wrong: the code, «…» around the token that the caret must mark, and the message.

A case without a `def kern` is the body of a kernel with the parameters of `HEADER`; one with it is a whole module. The
names of `NAMESPACE` are known in both.
"""

import math
from typing import Any

import numpy as np

import engine
from engine.compiler.library.slicing import slice_count
from engine.context import Table
from tests.compiler.message_cases_tiles import TILES

HEADER = (
    "def kern(a: engine.array(dtype=float), b: engine.array2d(dtype=float), v: engine.array(dtype=engine.vec3), "
    "m: engine.array(dtype=engine.mat33), ia: engine.array(dtype=int), ua: engine.array(dtype=engine.uint8), "
    "p: engine.array(dtype=Pair), t: Bodies, n: int, x: float, q: engine.quat, big: engine.int64):\n"
)


@engine.struct
class Pair:
    left: float
    right: engine.vec3


@engine.struct
class Holder:
    data: engine.array(dtype=float)


@engine.table
class Bodies:
    pos: engine.vec3
    mass: float


class Settings:
    n = 3


@engine.func
def takes_vec(v: engine.vec3):
    return v.x


@engine.func
def takes_ref(x: engine.ref[engine.float32]):
    x += 1.0


@engine.func
def either(x: float):
    return x


@engine.func
def either(x: engine.vec3):  # noqa: F811
    return x[0]


def plain_python(x):
    return x


@engine.kernel
def another_kernel(a: engine.array(dtype=float)):
    a[0] = 1.0


NAMESPACE = {
    "slice_count": slice_count, "Any": Any,
    "engine": engine, "math": math, "np": np, "Pair": Pair, "Holder": Holder, "Bodies": Bodies, "Table": Table,
    "SETTINGS": Settings(), "NUMBERS": [1, 2], "MEMORY": engine.zeros(3, dtype=float, device="cpu"),
    "takes_vec": takes_vec, "takes_ref": takes_ref, "either": either, "plain_python": plain_python,
    "another_kernel": another_kernel,
}  # fmt: skip

# what people who know Python write first
PYTHON = [
    ("a[0] = «math.sqrt(x)»",
     "'sqrt' is a Python function that kernels cannot call; did you mean 'engine.sqrt'?"),
    ("a[0] = «np.sin(x)»", "'sin' is a Python function that kernels cannot call; did you mean 'engine.sin'?"),
    ("a[0] = «math.foor»(x)",
     "'math' has no attribute 'foor'; did you mean 'floor'?"),
    ("a[0] = «plain_python(x)»",
     "'plain_python' is a Python function that kernels cannot call; decorate it with @engine.func"),
    ("«another_kernel(a)»", "'another_kernel' is a kernel: it is launched, not called; make it an @engine.func"),
    ("«engine.launch(n)»", "'launch' is a Python function that kernels cannot call; call it outside of the kernel"),
    ("a[0] = «sum(a)»", "'sum' is a Python function that kernels cannot call; loop over range(…)"),
    ("for k, y in «enumerate(a)»:\n    pass",
     "'enumerate' is a Python function that kernels cannot call; loop over range(…)"),
    ("a[0] = «str(x)»", "'str' is a Python function that kernels cannot call; use print(a, b) or printf(\"%f\", a)"),
    ("a[0] = «input()»", "'input' is a Python function that kernels cannot call"),
    ("a[0] = «xx»", "name 'xx' is not defined; did you mean 'x'?"),
    ("a[0] = «sqr»(x)", "name 'sqr' is not defined; did you mean 'engine.sqrt'?"),
    ("a[0] = «pi»", "name 'pi' is not defined; did you mean 'engine.pi'?"),
    ("a[0] = «engine.sine»(x)", "'engine' has no attribute 'sine'; did you mean 'sin'?"),
    ("y = «[i for i in range(3)]»",
     "a list comprehension is not part of the kernel language; write a loop over range(…)"),
    ("y = «{i for i in range(3)}»", "a set comprehension is not part of the kernel language"),
    ("y = «{i: i for i in range(3)}»", "a dict comprehension is not part of the kernel language"),
    ("y = «(i for i in range(3))»", "a generator expression is not part of the kernel language"),
    ("y = «[1, 2]»",
     "a list is not part of the kernel language; use a fixed array: engine.zeros(shape=…, dtype=…)"),
    ("y = «{1: 2}»", "a dict is not part of the kernel language"),
    ("y = «{1, 2}»", "a set is not part of the kernel language"),
    ("y = «f'{x}'»", "an f-string is not part of the kernel language; use print(a, b) or printf(\"%f\", a)"),
    ("y = «lambda z: z»",
     "a lambda is not part of the kernel language; define it outside the kernel, with @engine.func"),
    ("if («y := x») > 1.0:\n    a[0] = y", "':=' is not part of the kernel language; assign on a line of its own"),
    ("«yield x»", "'yield' is not part of the kernel language; write results into an array"),
    ("«try:»\n    a[0] = 1.0\nfinally:\n    pass",
     "'try' is not part of the kernel language; check before the launch, or write a flag into an array"),
    ("«raise ValueError('x')»", "'raise' is not part of the kernel language; check before the launch"),
    ("«with open('x') as f:»\n    pass", "'with' is not part of the kernel language"),
    ("«import math»", "'import' is not part of the kernel language; import outside the kernel"),
    ("«from math import sin»", "'import' is not part of the kernel language; import outside the kernel"),
    ("«global z»", "'global' is not part of the kernel language; write results into an array"),
    ("«del a[0]»", "'del' is not part of the kernel language"),
    ("«def inner(z):»\n    return z", "'def' is not part of the kernel language; define it outside the kernel"),
    ("«class Inner:»\n    pass", "'class' is not part of the kernel language; define it outside the kernel"),
    ("«match n:»\n    case 1:\n        pass", "'match' is not part of the kernel language; use if and elif"),
    ("«*y», z = v[0]", "'*' is not part of the kernel language; name each value"),
    ("«async def kern(a: engine.array(dtype=float)):»\n    await a",
     "'async def' is not part of the kernel language; use def"),
    ("def kern(a: engine.array(dtype=float), *«more: float»):\n    pass",
     "*args and **kwargs are not part of the kernel language; name each parameter"),
    ("a[0] = «1j»", "a complex number is not part of the kernel language"),
    ("y = «b'abc'»", "a bytes literal is not part of the kernel language"),
    ("print(«'%d' % n»)", "a text is not formatted in a kernel; use print(a, b) or printf(\"%f\", a)"),
    ("a[0] = «NUMBERS[n]»",
     "this is known while compiling and can only be indexed with constants; pass it to the kernel as an array"),
    ("a[0] = «NUMBERS»", "[1, 2] (list) is not a value that a kernel can compute with"),
    ("y = «NUMBERS[5]»", "list index out of range"),
    ("a[0] = «MEMORY»[0]", "'MEMORY' is an array of Python's: pass it to the kernel as an argument"),
    ("a[0] = float(«SETTINGS.nn»)", "'Settings' has no attribute 'nn'; did you mean 'n'?"),
    ("«NUMBERS[0]» = x", "this cannot be assigned to; results go into array parameters"),
    ("«a.shape» = n", "this cannot be assigned to"),
    ("«a.append»(1.0)", "array(dtype=float32) has no attribute 'append'"),
    ("a = «x»", "'a' holds array(dtype=float32) and cannot become float32; an element is written by a[i] = …"),
    ("«return x»", "a kernel returns nothing; write the result into an array"),
    ("if «a[0] is None»:\n    pass",
     "'is' and 'in' work on values known while compiling only; compare numbers with =="),
    ("for y in «a»:\n    pass",
     "a loop runs over range(…) or a tuple known while compiling; loop over range(a.shape[0])"),
    ("for y in «n»:\n    pass", "a loop runs over range(…) or a tuple known while compiling; did you mean range(…)?"),
    ("äö = 1.0; a[0] = «äöü»", "name 'äöü' is not defined; did you mean 'äö'?"),
]  # fmt: skip

NAMES_AND_TYPES = [
    ("if n > 3:\n    y = 1.0\na[0] = «y»",
     "'y' may have no value here: not every path before this line assigns it; assign it before the branch or loop"),
    ("for j in range(n):\n    y = float(j)\na[0] = «y»", "'y' may have no value here"),
    ("y = 0\ny = «1.5»", "'y' holds int32 and cannot become float32; convert it: int32(…), or use another name"),
    ("y = 0\ny = «v[0]»", "'y' holds int32 and cannot become vec3; use another name"),
    ("f = «takes_vec»\nf = takes_ref\na[0] = 1.0",
     "'f' is assigned more than once and cannot mean 'takes_vec', which is known while compiling only; "
     "use another name for each"),
    ("y = engine.zeros(2, dtype=float)\nif n > 0:\n    y = «engine.zeros(2, dtype=float)»\ny[0] = 1.0",
     "cannot be rebound inside a branch or loop"),
    ("y: «nothing» = x", "name 'nothing' is not defined"),
    ("y: int = «x»", "annotated int32 but the value is float32"),
    ("a[0] = «n»", "int32 is assigned to a place that holds float32; convert it: float32(…)"),
    ("ia[0] = «1.5»", "float32 is assigned to a place that holds int32; convert it: int32(…)"),
    ("v[0] = «x»", "float32 is assigned to a place that holds vec3"),
    ("ua[0] = «256»", "256 does not fit uint8 (0 … 255)"),
    ("y = «engine.int32(math.nan)»", "NaN has no integer value"),
    ("y = «engine.uint8(1000)»", "1000 does not fit uint8 (0 … 255)"),
    ("y = «engine.float32(v[0])»", "vec3 cannot be converted to float32"),
    ("y = «float(1.0, 2.0)»", "float32() takes one argument"),
    ("y = «engine.cast(a, engine.int32)»", "cast() is for values that consist of numbers, not for array("),
    ("y = «engine.cast(x)»", "cast() takes a value and a type"),
    ("y = «engine.cast(x, 3)»", "3"),
    ("y = «engine.cast(x, engine.vec3)»",
     "the bits of float32 are not those of vec3: the sizes differ, 4 and 12 bytes"),
    ("y = «engine.bitcast(x, engine.int64)»", "the bits of float32 are not those of int64: the sizes differ"),
    ("if «v[0]»:\n    pass", "vec3 is neither true nor false"),
    ("y = «x if n > 0 else engine.float64(1.0)»", "the two sides of 'if … else' are float32 and float64"),
    ("y = «p[0].lefft»", "Pair has no field 'lefft'; did you mean 'left'?"),
    ("y = «v[0].w»", "vec3 has no attribute 'w'"),
    ("y = «t.vel»", "table Bodies has no field 'vel'"),
    ("y = «x.shape»", "float32 has no shape"),
    ("y = (x, x)\nz = «y.left»", "a tuple has no attribute 'left'"),
    ("y, z = «v[0]»", "3 values are unpacked into 2 names"),
    ("y, z = «x»", "this value cannot be unpacked"),
]  # fmt: skip

OPERATORS = [
    ("y = «t if n > 0 else t»", "Bodies cannot be chosen at run time"),
    ("y = «x * n»", "'*' does not take float32 and int32; convert one of them, as in int32(…)"),
    ("y = «v[0] * v[0]»", "'*' does not take vec3 and vec3; use dot(), cross() or cw_mul()"),
    ("y = «x @ x»", "'@' does not take float32 and float32"),
    ("y = «x ** n»", "pow() does not take (float32, int32); convert the arguments to one type, as in float32(…)"),
    ("y = «1 // 0»", "integer division by zero"),
    ("y = «1 + 'a'»", "unsupported operand type(s) for +: 'int' and 'str'"),
    ("y = «-'a'»", "bad operand type for unary -: 'str'"),
    ("y = (x, 1.0)\nz = «y + y»", "'+' does not work on tuples in a kernel"),
    ("y = «~x»", "'~' does not take float32"),
    ("z = «-a»", "'-' does not take array(dtype=float32)"),
    ("y = «x < n»", "'<' does not take float32 and int32"),
    ("def kern(a: engine.array(dtype=engine.bool_)):\n    «a[0] ^= True»",
     "'^=' is not defined on bool where several threads may have the element; "
     "write a[i] = a[i] ^ x where they have not"),
    ("«a[0] *= n»", "'*' does not take float32 and int32"),
]  # fmt: skip

INDICES = [
    ("y = a[«slice(n, 2)»]", "the bounds of slice() must be compile-time constants"),
    ("y = «a[x:]»", "an index is a whole number, not float32"),
    ("«a[0, 1]» = x", "array(dtype=float32) has 1 dimensions, 2 indices are given"),
    ("y = «a[x]»", "an index is a whole number, not float32"),
    ("«a[x]» = 1.0", "an index is a whole number, not float32"),
    ("«v[0][0.5]» = 1.0", "an index is a whole number, not float32"),
    ("y = «a['x']»", "this index is not a number"),
    ("«v[0][3]» = 1.0", "index 3 is outside vec3, which has 3"),
    ("y = «v[0][0, 1]»", "vec3 cannot be indexed with 2 indices"),
    ("y = «m[0][n, n, n]»", "mat33 cannot be indexed with 3 indices at run time"),
    ("y = «x[n]»", "float32 cannot be indexed at run time"),
    ("y = p[0]\n«y[n]» = 1.0", "Pair cannot be indexed at run time"),
    ("y = engine.zeros(shape=(2, 3), dtype=float)\n«y[0, 3]» = 1.0",
     "index 3 is outside the local array, whose extent is 3"),
    ("y = engine.zeros(shape=(2, 3), dtype=float)\n«y[0, 1, 2]» = 1.0",
     "a local array of 2 dimensions is indexed with 3 indices"),
    ("y = «a[::0]»", "Slice step cannot be zero"),
    ("y = «v[0][::0]»", "Slice step cannot be zero"),
    ("y = «v[0][n:]»", "the bounds of a slice of a vector, matrix or tile must be known while compiling"),
    ("y = «v[0][0:2, 0:1]»", "vec3 cannot be indexed with 2 indices"),
    ("y = «m[0][0:1, 0:1, 0:1]»", "mat33 cannot be indexed with 3 indices"),
    ("y = «m[0][0:1, 7]»", "index 7 is outside mat33, which has 3"),
    ("y = «x[1:]»", "float32 cannot be sliced"),
    ("y = «SETTINGS[1:]»", "cannot be sliced"),
    ("y = «a[0:1, 0:1]»", "array(dtype=float32) has 1 dimensions, 2 indices are given"),
    ("v[0][0:2] = «a»", "array(dtype=float32) is assigned to a slice of vec3, which takes vec2"),
    ("def kern(a: engine.indexedarray(dtype=float)):\n    y = «a[0:1]»",
     "an indexed array cannot be sliced in a kernel; index its elements, or slice it in Python"),
]  # fmt: skip

CALLS = [
    ("ua[0] = engine.uint8(«engine.bits(x)»)", "bits() takes 1 to 32 truth values"),
    ("y = «engine.abs(2**70)»", "abs(): Python int too large"),
    ("y = «engine.dot(1.0, 2.0)»", "dot takes no (float32, float32)"),
    ("y = «slice_count(x, x, x)»", "slice_count(): 'start' is int32, got float32"),
    ("y = «x»(1.0)", "this is a value, not a function"),
    ("y = «NUMBERS(1)»", "[1, 2] is not a function"),
    ("y = «engine.sin()»", "sin() does not take (); it takes (x)"),
    ("y = «engine.clamp(x, lo=0.0, high=1.0)»",
     "clamp() does not take (float32, lo=0.0, high=1.0); it takes (x, low, high)"),
    ("y = «engine.dot(v[0], x)»", "dot() does not take (vec3, float32)"),
    ("y = «engine.sin('a')»", "sin() does not take ('a')"),
    ("y = «max(x, n)»", "max() does not take (float32, int32); convert the arguments to one type, as in float32(…)"),
    ("y = «engine.floor(x, x)»", "floor() takes 1 arguments, 2 are given"),
    ("y = «engine.floor(v)»", "floor() does not take (array(dtype=vec3))"),
    ("y = «engine.sqrt('a')»", "'a' (str) is not a value that a kernel can compute with"),
    ("y = «engine.where(n > 0, x)»", "select() takes a condition and two values"),
    ("y = «engine.where(n > 0, x, n)»", "select() does not take (bool, float32, int32)"),
    ("y = «engine.mul(x)»", "mul() takes 2 arguments, 1 are given"),
    ("y = «takes_vec(x)»", "takes_vec(): 'v' is vec3, got float32"),
    ("y = «takes_vec(v[0], x)»", "takes_vec() takes 1 arguments, 2 are given"),
    ("y = «takes_vec()»", "takes_vec() needs an argument for 'v'"),
    ("y = «takes_vec(w=v[0])»", "takes_vec() has no parameter 'w'"),
    ("y = «takes_vec(v[0], v=v[0])»", "takes_vec() got two values for 'v'"),
    ("y = «takes_vec(**NUMBERS)»", "'**' in a call is not part of the kernel language"),
    ("y = «either(n)»", "no overload of either() takes (int32); there are (x: float32) or (x: vec3)"),
    ("y = takes_vec(«*x»)",
     "Starred expressions are only supported for tuples, vectors, matrices and slices of arrays with constant bounds, "
     "not float32"),
    ("y = takes_vec(«*3»)", "Starred expressions are only supported for tuples and values with parts"),
    ("y = takes_vec(«*a[0:n]»)", "Slice component must be a compile-time constant to unpack the elements of an array"),
    ("y = takes_vec(«*a[0:]»)", "unpacking a slice of an array requires explicit upper bound"),
    ("y = takes_vec(«*a[-1:2]»)", "the bounds of an unpacked slice cannot be negative for arrays"),
    ("y = takes_vec(«*a[0:2:-1]»)", "the step of an unpacked slice must be positive: step cannot be negative or zero"),
    ("takes_ref(«x + 1.0»)", "'x' is a reference and needs a variable, an array element or a part of one"),
    ("alias = takes_ref\ny = x * 2.0\n«alias(y)»", "takes_ref() changes 'y': call it by that name"),
    ("y = «engine.ref(x)»", "ref is an annotation: `def f(x: ref[float])`"),
    ("def kern(«x: engine.ref[engine.float32]»):\n    x += 1.0", "'x': the parameters of a kernel are no references"),
    ("@engine.func\n«def f(x: float):»\n    if x > 0.0:\n        return 1.0\n\n"
     "def kern(a: engine.array(dtype=float)):\n    a[0] = f(a[1])", "'f' does not return a value on every path"),
    ("@engine.func\ndef f(n: int):\n    return «f(n)»\n\ndef kern(a: engine.array(dtype=int)):\n    a[0] = f(a[0])",
     "'f' calls itself; recursion is not part of the kernel language"),
    ("@engine.func\ndef f(x: float) -> int:\n    «return x»\n\n"
     "def kern(a: engine.array(dtype=float)):\n    y = f(a[0])",
     "'f' is annotated to return int32 but returns float32"),
    ("@engine.func\ndef f(x: float, n: int):\n    if x > 0.0:\n        return x\n    «return n»\n\n"
     "def kern(a: engine.array(dtype=float)):\n    y = f(a[0], 1)", "'f' returns float32 elsewhere and int32 here"),
    ("@engine.func\ndef f(t: Bodies):\n    «return t»\n\ndef kern(t: Bodies):\n    y = f(t)",
     "Bodies cannot be returned; pass it in and let the function write to it"),
    ("@engine.func\ndef f(x: float):\n    i = «engine.tid()»\n    return x\n\n"
     "def kern(a: engine.array(dtype=float)):\n    y = f(a[0])",
     "tid() is known in kernels only; pass the index to the function"),
    ("y = «NATIVE(x)»",
     "'plain_python': device code is written in the kernel language only, not in C++"),
]  # fmt: skip
NAMESPACE["NATIVE"] = engine.func_native("")(plain_python)

CONSTRUCTORS = [
    ("y = «Bodies(1)»", "Bodies cannot be constructed"),
    ("y = «Bodies()»", "Bodies has no zero value: it contains an array"),
    ("y = «engine.vec3(1.0, 2.0)»", "vec3() takes 3 numbers, 2 are given"),
    ("y = «engine.vec3(x, length=2)»", "vec3() has length 3"),
    ("y = «engine.mat22(m[0])»",
     "incompatible matrix of shape (2, 2) given when copy constructing a matrix of shape (3, 3)"),
    ("y = «engine.vec3(z=1.0)»", "vec3() has no parameter 'z'"),
    ("y = «engine.vec3(x, n, x)»",
     "vec3() takes float32, got int32: all values used to initialize this vector are expected"),
    ("y = «engine.vec3(engine.vec2())»",
     "incompatible vector of length 3 given when copy constructing a vector of length 2"),
    ("y = «engine.vec3(q)»", "vec3() does not take quat"),
    ("y = «engine.mat33(v[0], v[0], v[0])»",
     "mat33() of vectors could mean rows or columns; use matrix_from_rows or matrix_from_cols"),
    ("y = «Pair(1.0, v[0], x)»", "Pair has 2 fields, 3 are given"),
    ("y = «Pair(middle=1.0)»", "Pair has no field 'middle'"),
    ("y = «Pair(v[0])»", "field 'left' of Pair is float32, got vec3"),
    ("y = «engine.vector()»", "the `length` argument must be specified when zero-initializing a vector"),
    ("y = «engine.vector(1.0, 2)»", "all values given when constructing a vector must have the same type"),
    ("y = «engine.vector(1.0, 2.0, length=5)»",
     "incompatible number of values given (2) when constructing a vector of length 5"),
    ("y = «engine.vector(v[0], length=2)»",
     "incompatible vector of length 2 given when copy constructing a vector of length 3"),
    ("y = «engine.vector(length=0, dtype=float)»", "vector() needs numbers, or a length"),
    ("y = «engine.vector(length=n, dtype=float)»", "vector() needs a size and a dtype that are known while compiling"),
    ("y = «engine.vector(a, length=2)»", "a vector is made of numbers"),
    ("y = «engine.vector(1.0, dtype=engine.vec3)»", "dtype must be a scalar type, got vec3"),
    ("y = «engine.matrix(1.0, 2.0)»",
     "the `shape` argument must be specified when initializing a matrix by value"),
    ("y = «engine.matrix(1.0, 2.0, shape=(2, 2))»",
     "incompatible number of values given (2) when constructing a matrix of shape (2, 2)"),
    ("y = «engine.matrix_from_rows(x)»", "matrix_from_rows() takes vectors of one type"),
    ("y = «engine.identity(n=n, dtype=float)»", "identity() needs a size and a dtype that are known while compiling"),
    ("y = «engine.identity(n=2, dtype=engine.vec3)»", "identity() makes matrices of scalars, not of vec3"),
    ("y = «engine.zeros(n, dtype=float)»",
     "zeros() in a kernel needs a shape and a dtype that are known while compiling"),
    ("y = «engine.zeros(shape=-1, dtype=float)»",
     "the shape of a local array consists of positive whole numbers, not -1"),
    ("y = «engine.zeros(shape=2, dtype=3)»", "3"),
    ("y = «engine.zeros(shape=2, dtype=Holder)»", "Holder cannot be the element of a local array"),
    ("y = «engine.array(shape=2, dtype=float)»", "array() in a kernel takes ptr, shape and dtype"),
    ("y = «engine.array(ptr=x, shape=2, dtype=float)»", "ptr is a uint64, not float32"),
    ("y = «len(x)»", "float32 has no length"),
    ("y = «len(3)»", "3 has no length"),
    ("y = «len()»", "len() takes one argument"),
    ("y = «type()»", "type() takes one value"),
]  # fmt: skip

INTRINSICS = [
    ("y = «engine.bits(x)»", "bits() takes 1 to 32 truth values"),
    ("y = «engine.where(engine.vector(True, False, True), v[0], x)»", "select() does not take ("),
    ("for j in «reversed(range(big))»:\n    pass",
     "reversed() takes a range of int32, not of int64; convert it: int32(…)"),
    ("«engine.atomic_add(x, 0, x)»", "atomic_add() works on an array element"),
    ("«engine.prefetch(a)»", "prefetch() takes an array and an index for each of its dimensions"),
    ("«engine.atomic_add(a, 0, 0, x)»", "atomic_add() takes the array, 1 indices and 1 value"),
    ("«engine.atomic_add(a, x, x)»", "an index is a whole number, not float32"),
    ("«engine.atomic_add(p, 0, p[0])»", "atomic_add() does not work on Pair"),
    ("«engine.atomic_add(a, 0, n)»", "atomic_add() on array(dtype=float32) takes float32, got int32"),
    ("«engine.atomic_and(a, 0, x)»", "atomic_and() works on whole numbers, not float32"),
    ("y = «engine.static(1 // 0)»", "static(): ZeroDivisionError: integer division or modulo by zero"),
    ("y = «engine.static(x)»", "static(): a float32 is not known while compiling"),
    ("y = «engine.static()»", "static() takes one expression"),
    ("y = «engine.static({})»", "static(): dict is not a value that a kernel can use"),
    ("«print(x, sep='')»", "print() in a kernel has no parameter 'sep'"),
    ("«engine.printf(x)»", "printf() takes a format string and numbers"),
    ("«engine.printf('%d', " + ", ".join(["n"] * 33) + ")»",
     "the maximum number of variadic arguments that can be passed to `printf` is 32"),
    ("«engine.printf('%d %d', 1)»", "printf(): '%d' has no value"),
    ("«engine.printf('%d', 1, 2)»", "printf(): 2 values are given, the format prints 1"),
    ("«engine.printf('%f', v[0])»", "printf() prints numbers, not vec3; use print(), or give its components"),
    ("«engine.printf('%s', x)»", "printf(): '%s' prints no number"),
    ("«engine.assume()»", "assume() takes a condition, and a text that says why it holds"),
    ("«engine.expect_eq(x)»", "expect_eq() takes two values"),
    ("«engine.expect_eq(x, n)»", "expect_eq() compares values of one type, not float32 and int32"),
    ("«engine.expect_near(n, n, n)»", "expect_near() compares floats, not int32"),
    ("for j in «range(0, n, 0)»:\n    pass", "the step of range() must not be zero"),
    ("for j in «range(x)»:\n    pass", "range() takes integers of one type, not float32; convert it: int32(…)"),
    ("for j in «range(big, n)»:\n    pass", "range() takes integers of one type, not int64 and int32"),
    ("for j in «range()»:\n    pass", "range() takes 1 to 3 arguments"),
    ("for «j, k» in range(n):\n    pass", "a loop has one variable"),
    ("«for j in range(100000):»\n    y = engine.static(j)",
     "static(j) takes this loop apart, and 100000 iterations are"),
    ("y = «engine.grad(1)(x)»", "1 is not a function"),
    ("y = «engine.grad()»", "grad() takes one function"),
    ("y = «engine.grad(takes_vec)(v=v[0])»", "grad(f) takes the arguments of f by position"),
    ("engine.adjoint[«x»] = 1.0",
     "adjoint[…] has a meaning in the gradient of a function only; see @func_grad"),
]  # fmt: skip

CASES = [*PYTHON, *NAMES_AND_TYPES, *OPERATORS, *INDICES, *CALLS, *CONSTRUCTORS, *INTRINSICS, *TILES]
