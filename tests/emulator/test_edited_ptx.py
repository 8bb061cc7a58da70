"""A kernel with an edited PTX text runs the edit."""

import numpy as np
import pytest

import engine
from engine.errors import DeviceError, LaunchError


@engine.kernel
def scaled(x: engine.array(dtype=float), factor: float):
    i = engine.tid()
    x[i] = x[i] * factor + 1.0


def test_the_edit_shows() -> None:
    x = engine.array(np.arange(40, dtype=np.float32), device="emu")
    engine.launch(scaled, 40, [x, 3.0], device="emu")
    assert (x.numpy() == 3 * np.arange(40) + 1).all()
    text = scaled.code
    assert "0f3F800000" in text
    edited = scaled.with_ptx(text.replace("0f3F800000", "0fC1200000"))  # -10 instead of 1
    assert edited.code != text and scaled.code == text
    y = engine.array(np.arange(40, dtype=np.float32), device="emu")
    engine.launch(edited, 40, [y, 3.0], device="emu")
    assert (y.numpy() == 3 * np.arange(40) - 10).all()


def test_a_text_that_does_not_fit_is_refused() -> None:
    x = engine.zeros(4, device="emu")
    engine.launch(scaled, 4, [x, 1.0], device="emu")
    text = scaled.code
    wanted = "an entry 'scaled_kernel' with one parameter of .* bytes, got a text without it"
    with pytest.raises(LaunchError, match=wanted):
        engine.launch(scaled.with_ptx(text.replace("scaled_kernel", "other")), 4, [x, 1.0], device="emu")
    with pytest.raises(LaunchError, match="with_ptx.*ptx line 1"):
        engine.launch(scaled.with_ptx("what?"), 4, [x, 1.0], device="emu")
    with pytest.raises(DeviceError, match="unknown opcode"):
        engine.launch(scaled.with_ptx(text.replace("fma.rn.f32", "fmaa.rn.f32")), 4, [x, 1.0], device="emu")
    with pytest.raises(LaunchError, match="a GPU or 'emu' for an edited PTX text"):
        engine.launch(scaled.with_ptx(text), 4, [engine.zeros(4, device="cpu"), 1.0], device="cpu")
