"""Random numbers from a state of 32 bits: reproducible, with as many independent streams as there are threads.

The state is hashed by PCG (Jarzynski and Olano, "Hash functions for GPU rendering", JCGT 9(3), 2020). In a kernel the
functions with `updates="state"` leave the next state in their argument; in Python scope they give the number only.
"""

from engine.compiler.library.logarithm import log_f32
from engine.compiler.library.primitives import sqrt
from engine.compiler.library.registry import builtin, library_function
from engine.compiler.library.trig import cos_f32
from engine.compiler.types import float32, int32, uint32

TAU = 6.283185307179586


@library_function
def hash_pcg(state: uint32):
    """32 well-mixed bits."""
    b = state * 747796405 + 2891336453
    c = ((b >> ((b >> 28) + 4)) ^ b) * 277803737
    return (c >> 22) ^ c


@builtin("rand_init")
def rand_init(seed: int32):
    """The start state of a stream, from a seed or from a seed and the number of the stream (such as `tid()`)."""
    return hash_pcg(uint32(seed))


@builtin("rand_init")
def rand_init_stream(seed: int32, offset: int32):
    return hash_pcg(uint32(seed) + hash_pcg(uint32(offset)))


@library_function
def uniform(state: uint32):
    """A multiple of 2**-24 in 0 … 1, without 1."""
    return float32(state >> 8) * 5.960464477539063e-08


@builtin("randu", updates="state")
def randu(state: uint32):
    """A random uint32, or one in low … high - 1."""
    state = hash_pcg(state)
    return state, state


@builtin("randu", updates="state")
def randu_between(state: uint32, low: uint32, high: uint32):
    state = hash_pcg(state)
    return state % (high - low) + low, state


@builtin("randi", updates="state")
def randi(state: uint32):
    """A random int32, or one in low … high - 1."""
    state = hash_pcg(state)
    return int32(state), state


@builtin("randi", updates="state")
def randi_between(state: uint32, low: int32, high: int32):
    state = hash_pcg(state)
    return int32(state % uint32(high - low)) + low, state


@builtin("randf", updates="state")
def randf(state: uint32):
    """A random float32 in 0 … 1 (without 1), or in low … high."""
    state = hash_pcg(state)
    return uniform(state), state


@builtin("randf", updates="state")
def randf_between(state: uint32, low: float32, high: float32):
    state = hash_pcg(state)
    return (high - low) * uniform(state) + low, state


@builtin("randn", updates="state")
def randn(state: uint32):
    """A random float32 of the standard normal distribution (Box and Muller, 1958)."""
    first = hash_pcg(state)
    second = hash_pcg(first)
    return sqrt(-2.0 * log_f32(1.0 - uniform(first))) * cos_f32(TAU * uniform(second)), second
