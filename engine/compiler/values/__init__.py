"""Python-scope values: classes that are both annotations in kernels and numbers in Python."""

from engine.compiler.values.base import Value
from engine.compiler.values.factories import (
    Pattern,
    flatten,
    matrix,
    quaternion,
    transformation,
    type_of,
    value_class,
    vector,
)
from engine.compiler.values.linear import MatrixValue, VectorValue
from engine.compiler.values.rigid import QuatValue, TransformValue
from engine.compiler.values.structs import StructValue, struct

__all__ = [
    "MatrixValue", "Pattern", "QuatValue", "StructValue", "TransformValue", "Value", "VectorValue", "flatten", "matrix",
    "quaternion", "struct", "transformation", "type_of", "value_class", "vector",
]  # fmt: skip
