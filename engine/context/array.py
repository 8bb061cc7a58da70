"""The array: typed, strided elements in the memory of one device, and an annotation of the same spelling.

Layouts, for three vec3 elements a, b, c:
    aos     ax ay az bx by bz cx cy cz           what NumPy hands over without a copy
    planes  ax bx cx … | ay by cy … | az bz cz   each component apart, planes on 64-byte borders
    rows    ax ay az .. bx by bz .. cx cy cz ..  elements padded to 16, 32 or 64 bytes
NumPy sees all three as an (n, 3) array; only the strides differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from engine.compiler import types
from engine.context import array_foreign as foreign
from engine.context import array_views as views
from engine.context import dlpack, dtypes, gradients, recording
from engine.context.annotation import ArrayAnnotation
from engine.context.array_operators import ArrayOperators
from engine.context.device import Device, get_device
from engine.context.memory import ALIGNMENT, Block, host_window
from engine.errors import ArgumentError, LaunchError

_NO_MEMORY = Block(0, 0, None)
Values = list[Any]


class array(ArrayOperators):
    """A 1- to 4-dimensional array of scalars, vectors, matrices, quaternions, transforms or structs.

    `array(data, dtype=, shape=, device=, copy=True, layout="aos")` takes lists, NumPy arrays, value objects, another
    array, or an object with `__array_interface__` or `__cuda_array_interface__`. Without `dtype`, Python ints become
    int32, floats float32, and NumPy data keep their type; an (n, 3) or (3 n,) float32 array with `dtype=vec3` has shape
    (n,). `copy=False` shares the memory of `data`, and raises TypeError where that is impossible. Without `data` it is
    zero; without `data` and `shape` it is empty, which is what a kernel's annotation `array(dtype=vec3)` means.

    `array(ptr=, dtype=, shape=, strides=, capacity=, deleter=)` lies over foreign memory at an address. `deleter(ptr,
    bytes)` is called when nothing refers to the memory any more; without one the caller keeps it alive. `pinned` is
    accepted: host memory needs no pinning for the cpu.

    Raises TypeError for data that do not fit, ValueError for a bad shape or an integer out of range, DeviceError for an
    unknown device.

    Attributes: `dtype`, `shape`, `strides` (bytes), `ptr` (address of the first element, or of its plane 0),
    `plane_stride` (bytes from plane to plane), `device`, `layout`, `ir_type`.
    """

    __slots__ = (
        "__weakref__", "block", "device", "differentiable", "dtype", "element", "ir_type", "plane_stride", "ptr",
        "retained", "shape", "strides", "table",
    )  # fmt: skip

    makes_arrays = True  # in kernels, too: the front end knows the class by this
    ir_class = types.Array
    dtype: Any
    element: types.Type
    ir_type: types.Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ptr: int
    plane_stride: int
    block: Block
    device: Device
    table: Callable[[], Any] | None  # weak reference to the table that this array is a field of, and moves with
    indexed: ClassVar[Callable[[array, Any], Any]]  # makes an indexed array of an array and lists; set by its module

    def __init__(self, data: Any = None, dtype: Any = Any, shape: Any = None, strides: Any = None,
                 ptr: int | None = None, capacity: int | None = None, deleter: Callable[[int, int], None] | None = None,
                 device: Any = None, pinned: bool = False, copy: bool = True, layout: str = "aos",
                 ndim: int | None = None, requires_grad: bool = False, retain_grad: bool = False,
                 grad: array | None = None):  # fmt: skip
        self._build(data, dtype, shape, strides, ptr, capacity, deleter, device, copy, layout, ndim)
        if requires_grad or grad is not None:
            self.requires_grad = True
        if grad is not None:
            self.grad = grad
        if retain_grad:
            self.retain_grad = True

    def _build(self, data: Any, dtype: Any, shape: Any, strides: Any, ptr: int | None, capacity: int | None,
               deleter: Callable[[int, int], None] | None, device: Any, copy: bool, layout: str,
               ndim: int | None) -> None:  # fmt: skip
        if layout not in types.LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(types.LAYOUTS)}, got {layout!r}")
        if ptr is not None:
            self._over_pointer(ptr, dtype, shape, strides, capacity, deleter, get_device(device), layout)
        elif data is None and shape is None:
            self._set_type(Any if dtype is None else dtype, 1 if ndim is None else ndim, layout)
            none = (0,) * self.ir_type.ndim
            self._set_memory(none, none, 0, 0, _NO_MEMORY, get_device("cpu" if device is None else device))
            return
        elif data is None:
            extents = views.checked_shape(shape)
            kept = float if dtype in (Any, None) else dtype
            self._allocate(kept, extents, layout, get_device(device), zeroed=True, strides=strides)
        elif isinstance(data, array):
            self._from_array(data, dtype, shape, device, copy, layout)
        else:
            self._from_data(foreign.as_numpy(data), dtype, shape, get_device(device), copy, layout)
        if ndim not in (None, self.ndim):
            raise ValueError(f"ndim={ndim} was asked for, but the data have {self.ndim} dimensions")

    def __class_getitem__(cls, given: Any) -> ArrayAnnotation:
        """`array[float]` annotates what `array(dtype=float)` does, `array[float, 2]` the ones of two dimensions."""
        return ArrayAnnotation.of(cls, given)

    # -- construction ------------------------------------------------------------------------------------------------

    @classmethod
    def allocate(cls, dtype: Any, shape: Any, layout: str = "aos", device: Any = None, zeroed: bool = True,
                 strides: Any = None) -> array:  # fmt: skip
        """New memory for `shape` elements, zero or uninitialised; with `strides`, elements lie that far apart."""
        self = cls.__new__(cls)
        if layout not in types.LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(types.LAYOUTS)}, got {layout!r}")
        self._allocate(dtype, views.checked_shape(shape), layout, get_device(device), zeroed, strides)
        return self

    @classmethod
    def over(cls, dtype: Any, layout: str, shape: tuple[int, ...], strides: tuple[int, ...], ptr: int,
             plane_stride: int, block: Block, device: Device) -> array:  # fmt: skip
        """An array over memory that exists already."""
        self = cls.__new__(cls)
        self._set_type(dtype, len(shape), layout)
        self._set_memory(shape, strides, ptr, plane_stride, block, device)
        return self

    def _set_type(self, dtype: Any, ndim: int, layout: str) -> None:
        if not 1 <= ndim <= views.MAX_DIMS:
            raise ValueError(f"an array has 1 to {views.MAX_DIMS} dimensions, got ndim={ndim}")
        self.dtype, self.element = dtypes.resolve(dtype)
        if layout == "planes" and isinstance(self.element, types.Struct):
            raise TypeError(f"{self.element!r}: planes of a struct are a table; use layout 'aos' or 'rows', or @table")
        self.ir_type = dtypes.array_type(self.element, ndim, layout)

    def _set_memory(self, shape: tuple[int, ...], strides: tuple[int, ...], ptr: int, plane_stride: int, block: Block,
                    device: Device) -> None:  # fmt: skip
        self.shape, self.strides, self.ptr, self.plane_stride = shape, strides, ptr, plane_stride
        self.block, self.device, self.table = block, device, None
        self.differentiable = self.retained = False

    def _allocate(self, dtype: Any, shape: tuple[int, ...], layout: str, device: Device, zeroed: bool,
                  strides: Any = None) -> None:  # fmt: skip
        self._set_type(dtype, len(shape), layout)
        steps = views.contiguous_strides(shape, self.element_stride)
        if strides is not None:
            steps = views.checked_strides(strides, shape)
        if any(step < 0 for step in steps):
            raise NotImplementedError("Negative strides: allocate without them and take a view a[::-1]")
        size = views.extent_bytes(shape, steps, self.element_stride)
        plane_stride = 0
        if layout == "planes":
            plane_stride = -(-size // ALIGNMENT) * ALIGNMENT
            size = plane_stride * len(types.leaves(self.element))
        block = device.alloc(size, zeroed)
        self._set_memory(shape, steps, block.ptr, plane_stride, block, device)
        if zeroed and recording.captures and (capture := recording.current()) is not None:
            capture.zero(self)

    def _over_pointer(self, ptr: int, dtype: Any, shape: Any, strides: Any, capacity: int | None,
                      deleter: Callable[[int, int], None] | None, device: Device, layout: str) -> None:  # fmt: skip
        """Lie over memory at an address; the caller answers for it."""
        if shape is None or dtype in (Any, None):
            raise ValueError("an array over a pointer needs dtype= and shape=")
        if layout == "planes":
            raise ValueError("an array over a pointer has the layout 'aos' or 'rows'")
        extents = views.checked_shape(shape)
        self._set_type(dtype, len(extents), layout)
        steps = views.contiguous_strides(extents, self.element_stride)
        if strides is not None:
            steps = views.checked_strides(strides, extents)
        needed = views.extent_bytes(extents, steps, self.element_stride)
        if capacity is not None and needed > capacity:
            raise ValueError(f"shape {extents} needs {needed} bytes, but the capacity is {capacity}")
        size = needed if capacity is None else capacity
        block = Block(ptr, size, None if deleter is None else foreign.Deleter(deleter, ptr, size))
        self._set_memory(extents, steps, ptr, 0, block, device)

    def _from_array(self, data: array, dtype: Any, shape: Any, device: Any, copy: bool, layout: str) -> None:
        element = data.element if dtype in (Any, None) else dtypes.resolve(dtype)[1]
        home = data.device if device is None else get_device(device)
        if not copy and (element, layout, home) == (data.element, data.layout, data.device):
            self._like(data if shape is None else data.reshape(shape))
            return
        if not copy:
            raise TypeError(f"cannot share the memory of {data!r} as {element!r} in layout '{layout}' on {home.name}")
        kept = data.dtype if dtype in (Any, None) else dtype
        self._from_data(data.numpy(), kept, shape, home, True, layout)

    def _from_data(self, data: Any, dtype: Any, shape: Any, device: Device, copy: bool, layout: str) -> None:
        dtype = dtypes.infer(data) if dtype in (Any, None) else dtype
        element = dtypes.resolve(dtype)[1]
        if not copy and isinstance(data, np.ndarray):
            self._share(data, dtype, shape, device, layout)
            return
        source = dtypes.to_numpy(data, element, layout)
        inner = source.ndim - len(dtypes.numpy_element(element, layout)[1])
        outer = views.checked_shape(source.shape[:inner] or (1,))
        extents = outer if shape is None else views.reshaped(outer, shape)
        self._allocate(dtype, extents, layout, device, zeroed=False)
        dtypes.keep_arrays(self.block, data, element)
        stored = source.reshape(extents + source.shape[inner:])
        self.store(stored)
        if recording.captures and (capture := recording.current()) is not None:
            capture.write(self, stored)

    def _share(self, data: np.ndarray, dtype: Any, shape: Any, device: Device, layout: str) -> None:
        """Lie over the memory of a NumPy array whose elements already have the exact form."""
        self._set_type(dtype, 1, layout)
        scalar, inner = dtypes.numpy_element(self.element, layout)
        outer = data.ndim - len(inner)
        if data.dtype != scalar or outer < 1 or data.shape[outer:] != inner:
            form = f"{scalar} of shape (…, {', '.join(map(str, inner))})" if inner else str(scalar)
            raise TypeError(f"sharing memory as {self.element!r} needs {form}, got {data.dtype} of shape {data.shape}; "
                            "use engine.array(data, dtype=...) to convert a copy")  # fmt: skip
        if not device.is_cpu or not data.flags.writeable or not data.flags.aligned:
            raise TypeError(f"sharing memory needs a writable, aligned NumPy array and a cpu device, not {device.name}")
        step, wanted = scalar.itemsize, views.contiguous_strides(inner, scalar.itemsize)
        if layout == "planes" and inner:
            step = data.strides[-1]
            wanted = views.contiguous_strides(inner, step)
        if data.size and data.strides[outer:] != wanted:
            raise TypeError(f"sharing memory as {self.element!r} in layout '{layout}' needs inner strides {wanted}, "
                            f"got {data.strides[outer:]}")  # fmt: skip
        extents = views.checked_shape(data.shape[:outer])
        self._set_type(dtype, len(extents), layout)
        ptr = data.ctypes.data
        block = Block(ptr, data.nbytes, data)
        self._set_memory(extents, data.strides[:outer], ptr, step if layout == "planes" else 0, block, device)
        if shape is not None:
            self._like(self.reshape(shape))

    def _like(self, other: array) -> None:
        """Be another view of the memory of `other`."""
        self._set_type(other.dtype, other.ndim, other.layout)
        self._set_memory(other.shape, other.strides, other.ptr, other.plane_stride, other.block, other.device)

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> str:
        return self.ir_type.layout

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def element_stride(self) -> int:
        """Bytes between neighbours when contiguous: the (padded) element, or one scalar where components are apart."""
        if self.ir_type.layout == "planes":
            return dtypes.numpy_element(self.element)[0].itemsize
        return types.memory_layout(self.element, self.ir_type.layout)[1]

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take, without gaps between planes."""
        planes = len(types.leaves(self.element)) if self.layout == "planes" else 1
        return self.size * self.element_stride * planes

    @property
    def deleter(self) -> Callable[[int, int], None] | None:
        """What is called with address and size when foreign memory is no longer used; None for the engine's own."""
        return self.block.owner.function if isinstance(self.block.owner, foreign.Deleter) else None

    @property
    def capacity(self) -> int:
        """Bytes from the first element to behind the last one."""
        return views.extent_bytes(self.shape, tuple(map(abs, self.strides)), self.element_stride)

    @property
    def pinned(self) -> bool:
        """Whether the memory is page-locked for copies to a GPU; that of the cpu device never is."""
        return False

    @property
    def _is_whole(self) -> bool:
        """Whether no other element shares the block of memory."""
        return self.nbytes >= self.block.nbytes

    @property
    def is_contiguous(self) -> bool:
        return views.is_contiguous(self.shape, self.strides, self.element_stride)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        layout = "" if self.layout == "aos" else f", layout='{self.layout}'"
        return f"array(shape={self.shape}, dtype={self.element!r}{layout}, device='{self.device.name}')"

    def __str__(self) -> str:
        return str(self.numpy())

    # -- gradients ---------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether the array takes part in gradients: it then has a `grad`. Views inherit it."""
        return self.differentiable

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.differentiable = bool(value)
        if value:
            gradients.ensure(self)
        else:
            self.retained = False
            gradients.drop(self)

    @property
    def retain_grad(self) -> bool:
        """Whether `grad` is kept when the array is an intermediate result; else the way back uses it up."""
        return self.retained

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value and not self.differentiable:
            raise ValueError("retain_grad needs requires_grad=True")
        self.retained = bool(value)

    @property
    def grad(self) -> array | None:
        """The gradient: an array of the same type over memory shaped like this one's, so that views share it."""
        return gradients.gradient(self) if self.differentiable else None

    @grad.setter
    def grad(self, value: array | None) -> None:
        self.differentiable = value is not None
        if value is None:
            gradients.drop(self)
        else:
            gradients.adopt(self, value)

    # -- host access -------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The elements as NumPy: on the cpu a writable view of the same memory, elsewhere a copy.

        Vectors add one inner dimension, matrices two; structs are records. The view is read-only while a tape has
        recorded the array: a change would go unnoticed.
        """
        if recording.captures:
            recording.refuse_read("array.numpy")
        found = self._window(self.ptr, self.shape, self.strides)
        if self.block.shadow is not None and gradients.is_watched(self):
            found.flags.writeable = False
        return found

    def window(self) -> np.ndarray:
        """`numpy()` for the engine itself: whatever watches the array does not get to know."""
        return self._window(self.ptr, self.shape, self.strides)

    def places(self) -> np.ndarray:
        """`window()` as addresses: shape, strides and type where the elements lie. On a GPU nobody may read them."""
        return host_window(self.block, self.ptr, *self._form(self.shape, self.strides))

    def _form(
        self, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype]:
        """Shape and strides with the components of an element as inner dimensions, and the NumPy type."""
        scalar, inner = dtypes.numpy_element(self.element, self.layout)
        step = self.plane_stride if self.layout == "planes" else scalar.itemsize
        return (*shape, *inner), (*strides, *views.contiguous_strides(inner, step)), scalar

    def store(self, values: Any, part: Any = ...) -> None:
        """Set `numpy()[part]` to `values`, which have NumPy's form, on any device. Tapes do not see it."""
        self.device.store(self.block, self.ptr, *self._form(self.shape, self.strides), values, part)

    def _window(self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        return self.device.window(self.block, ptr, *self._form(shape, strides))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        return found if dtype is None or found.dtype == dtype else found.astype(dtype)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self.device.is_cpu:
            raise AttributeError(f"the memory is on device '{self.device.name}', where NumPy cannot read it")
        return self.numpy().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self.device.is_cuda:
            raise AttributeError(f"the array is on device '{self.device.name}': it has no __cuda_array_interface__")
        scalar, inner = dtypes.numpy_element(self.element, self.layout)
        step = self.plane_stride if self.layout == "planes" else scalar.itemsize
        strides = (*self.strides, *views.contiguous_strides(inner, step))
        typestr = f"|V{scalar.itemsize}" if scalar.names is not None else scalar.str
        return {"data": (self.ptr, False), "shape": (*self.shape, *inner), "strides": strides, "typestr": typestr,
                "version": 3}  # fmt: skip

    def __dlpack__(self, **options: Any) -> Any:
        return dlpack.capsule(self.numpy(), self.element, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def list(self) -> Values:
        """All elements in C order, as Python numbers or value objects."""
        inner = dtypes.numpy_element(self.element, self.layout)[1]
        flat = self.numpy().reshape(-1, *inner)
        if isinstance(self.element, types.Scalar):
            numbers: Values = flat.tolist()
            return numbers
        arrays = dtypes.kept_arrays(self.block.kept)
        return [dtypes.to_value(stored, self.element, arrays) for stored in flat]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """An element (a Python number or value object) where every dimension is indexed, else a view.

        Integers, slices, None and one ellipsis work as in NumPy. An int32 array as an index gives an indexed array:
        several of them select the rows, columns … of each dimension by itself.
        """
        if key.__class__ is array or (key.__class__ is tuple and any(isinstance(part, array) for part in key)):
            return array.indexed(self, key)
        offset, shape, strides = views.index(self.shape, self.strides, key)
        if shape:
            return self._view(shape, strides, self.ptr + offset)
        if recording.captures:
            recording.refuse_read("array[...]")
        stored = self._window(self.ptr + offset, (), ())[()]
        if self.block.kept is None:
            return dtypes.to_value(stored, self.element)
        return dtypes.to_value(stored, self.element, dtypes.kept_arrays(self.block.kept))

    def __setitem__(self, key: Any, value: Any) -> None:
        dtypes.keep_arrays(self.block, value, self.element)
        offset, shape, strides = views.index(self.shape, self.strides, key)
        if recording.captures and (capture := recording.current()) is not None:
            capture.write(self._view(shape or (1,), strides or (self.element_stride,), self.ptr + offset), value)
            return
        if gradients.watcher is not None:
            place = self._view(shape or (1,), strides or (self.element_stride,), self.ptr + offset)
            gradients.assigned(place, value)
        if not self.device.is_cpu:
            self._view(shape or (1,), strides or (self.element_stride,), self.ptr + offset)._write(value)
            return
        self.device.store(self.block, self.ptr + offset, *self._form(shape, strides), self.converted(value))

    def _write(self, value: Any) -> None:
        """`self[...] = value` on a GPU: by the device itself where it can."""
        if isinstance(value, array) and self.device.write(self, value):
            return
        values = self.converted(value)
        if not self.device.write(self, values):
            self.store(values)

    def converted(self, value: Any) -> np.ndarray:
        """`value` as NumPy holds elements of this array; broadcast against it, it has the array's shape."""
        value = value.numpy() if hasattr(value, "ir_type") and hasattr(value, "numpy") else value
        same = types.components(self.element)
        if same is not None and np.ndim(value) == 0:
            return dtypes.to_numpy(value, same[0])  # one number for every component
        return dtypes.to_numpy(value, self.element, self.layout)

    def fill_(self, value: Any) -> array:
        """Set every element to `value`: a number (for each component), a sequence of components, or a value object."""
        dtypes.keep_arrays(self.block, value, self.element, self._is_whole)
        if recording.captures and (capture := recording.current()) is not None:
            capture.write(self, value)
            return self
        if gradients.watcher is not None:
            gradients.overwritten(self)
        self._write(value) if not self.device.is_cpu else self.store(self.converted(value))
        return self

    def zero_(self) -> array:
        """Set every byte of every element to zero."""
        if recording.captures and (capture := recording.current()) is not None:
            capture.zero(self)
            return self
        if gradients.watcher is not None:
            gradients.overwritten(self)
        zero = np.zeros((), dtypes.numpy_element(self.element, self.layout)[0])
        if self.device.is_cpu or not self.device.write(self, zero):
            self.store(zero)
        return self

    def assign(self, values: Any) -> array:
        """Copy `values` (array, NumPy array or nested lists) into this array; raises ValueError for another shape."""
        dtypes.keep_arrays(self.block, values, self.element, self._is_whole)
        if recording.captures and (capture := recording.current()) is not None:
            capture.assign(self, values)
            return self
        if not self.device.is_cpu and isinstance(values, array) and values.shape == self.shape:
            if gradients.watcher is not None:
                gradients.assigned(self, values)
            self._write(values)
            return self
        source = self.converted(values)
        expected = self._form(self.shape, self.strides)[0]
        if source.shape != expected:
            raise ValueError(f"assign needs data of shape {expected}, got {source.shape}")
        if gradients.watcher is not None:
            gradients.assigned(self, values)
        self.store(source)
        return self

    def to(self, device: Any) -> array:
        """This array when it is on `device`, else a copy there."""
        home = get_device(device)
        if home is self.device:
            return self
        return array.allocate(self.dtype, self.shape, self.layout, home, zeroed=False).assign(self)

    # -- views -------------------------------------------------------------------------------------------------------

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], ptr: int) -> array:
        view = array.over(self.dtype, self.layout, shape, strides, ptr, self.plane_stride, self.block, self.device)
        view.differentiable = self.differentiable
        return view

    def reshape(self, shape: Any, *more: int) -> array:
        """A view with another shape of the same size (one extent may be -1); raises ArgumentError unless contiguous."""
        extents = views.reshaped(self.shape, (shape, *more) if more else shape)
        if not self.is_contiguous:
            raise ArgumentError("Reshaping non-contiguous arrays is unsupported; use engine.clone(a) first")
        return self._view(extents, views.contiguous_strides(extents, self.element_stride), self.ptr)

    def flatten(self) -> array:
        """A 1-d view of a contiguous array."""
        return self.reshape(self.size)

    def transpose(self, axes: Any = None) -> array:
        """A view with the axes in another order; None reverses them."""
        return self._view(*views.transposed(self.shape, self.strides, axes), self.ptr)

    def view(self, dtype: Any) -> array:
        """The same memory read as another element type of the same size.

        Scalars may be read as vectors or matrices of the same scalar size when their last dimensions have that shape,
        and the other way round. Raises TypeError for other sizes, LaunchError for planes and rows.
        """
        kept, element = dtypes.resolve(dtype)
        if element == self.element:
            return self._view(self.shape, self.strides, self.ptr)
        if self.layout != "aos":
            expected = f"{self.element!r}: components of '{self.layout}' are not next to each other"
            raise LaunchError("array.view", "dtype", expected, repr(element), "clone it with layout='aos' first")
        shape, strides = dtypes.reinterpreted(self.shape, self.strides, self.element, element)
        view = array.over(kept, "aos", shape, strides, self.ptr, 0, self.block, self.device)
        view.differentiable = self.differentiable
        return view

    def contiguous(self) -> array:
        """This array when it is contiguous, else a contiguous copy."""
        if self.is_contiguous:
            return self
        copy = array.allocate(self.dtype, self.shape, self.layout, self.device, zeroed=False)
        return copy.assign(self)
