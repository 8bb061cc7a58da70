"""Parameter patterns of the library. In a call, patterns of one name bind to one type, and so do their components."""

from typing import Any

from engine.compiler.types import AnyFloat, AnyScalar, Generic

Vec: Any = Generic("vector", AnyScalar, (None,), "Vector")
OtherVec: Any = Generic("vector", AnyScalar, (None,), "Vector of any length")
Vec2: Any = Generic("vector", AnyScalar, (2,), "Vec2")
Vec3: Any = Generic("vector", AnyScalar, (3,), "Vec3")
Vec6: Any = Generic("vector", AnyScalar, (6,), "Vec6")
Mat: Any = Generic("matrix", AnyScalar, (None, None), "Matrix")
OtherMat: Any = Generic("matrix", AnyScalar, (None, None), "Matrix of any shape")
Mat22: Any = Generic("matrix", AnyScalar, (2, 2), "Mat22")
Mat33: Any = Generic("matrix", AnyScalar, (3, 3), "Mat33")
Mat44: Any = Generic("matrix", AnyScalar, (4, 4), "Mat44")
# of real numbers
RealVec3: Any = Generic("vector", AnyFloat, (3,), "Vec3")
RealVec: Any = Generic("vector", AnyFloat, (None,), "Vector")
RealMat33: Any = Generic("matrix", AnyFloat, (3, 3), "Mat33")
RealMat44: Any = Generic("matrix", AnyFloat, (4, 4), "Mat44")
Quat: Any = Generic("quat", AnyFloat, (), "Quat")
Transform: Any = Generic("transform", AnyFloat, (), "Transform")
Spatial: Any = Generic("vector", AnyFloat, (6,), "spatial_vector")
