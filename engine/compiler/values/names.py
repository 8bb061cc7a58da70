"""The value classes under the names that users know: vec3, mat33d, quat, transform, spatial_vector …"""

from __future__ import annotations

from engine.compiler import types as t
from engine.compiler.values.linear import matrix_class, vector_class
from engine.compiler.values.rigid import quat_class, transform_class

vec2 = vec2f = vector_class(t.float32, 2)
vec3 = vec3f = vector_class(t.float32, 3)
vec4 = vec4f = vector_class(t.float32, 4)
vec2d, vec3d, vec4d = (vector_class(t.float64, n) for n in (2, 3, 4))
vec2h, vec3h, vec4h = (vector_class(t.float16, n) for n in (2, 3, 4))
vec2b, vec3b, vec4b = (vector_class(t.int8, n) for n in (2, 3, 4))
vec2ub, vec3ub, vec4ub = (vector_class(t.uint8, n) for n in (2, 3, 4))
vec2s, vec3s, vec4s = (vector_class(t.int16, n) for n in (2, 3, 4))
vec2us, vec3us, vec4us = (vector_class(t.uint16, n) for n in (2, 3, 4))
vec2i, vec3i, vec4i = (vector_class(t.int32, n) for n in (2, 3, 4))
vec2ui, vec3ui, vec4ui = (vector_class(t.uint32, n) for n in (2, 3, 4))
vec2l, vec3l, vec4l = (vector_class(t.int64, n) for n in (2, 3, 4))
vec2ul, vec3ul, vec4ul = (vector_class(t.uint64, n) for n in (2, 3, 4))

mat22 = mat22f = matrix_class(t.float32, 2, 2)
mat33 = mat33f = matrix_class(t.float32, 3, 3)
mat44 = mat44f = matrix_class(t.float32, 4, 4)
mat22d, mat33d, mat44d = (matrix_class(t.float64, n, n) for n in (2, 3, 4))
mat22h, mat33h, mat44h = (matrix_class(t.float16, n, n) for n in (2, 3, 4))

quat = quatf = quat_class(t.float32)
quatd, quath = quat_class(t.float64), quat_class(t.float16)

transform = transformf = transform_class(t.float32)
transformd, transformh = transform_class(t.float64), transform_class(t.float16)

# six components; Newton's order: linear (velocity of the centre of mass, force), then angular (rate, torque)
spatial_vector = spatial_vectorf = vector_class(t.float32, 6)
spatial_vectord, spatial_vectorh = vector_class(t.float64, 6), vector_class(t.float16, 6)
spatial_matrix = spatial_matrixf = matrix_class(t.float32, 6, 6)
spatial_matrixd, spatial_matrixh = matrix_class(t.float64, 6, 6), matrix_class(t.float16, 6, 6)
