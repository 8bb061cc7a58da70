"""The error classes: their family, their fields, their one line, and crossing a process border."""

import pickle
import traceback

import pytest

from engine import errors

EXAMPLES = [
    errors.CompileError("no such name", filename="k.py", lineno=3, offset=9, text="    y = sine(x)\n", end_offset=13),
    errors.CompileError("recursion is not supported"),
    errors.LaunchError("saxpy", "x", "array of float32", "array of int32", "cast it first"),
    errors.DeviceError("cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY", (0, 1 << 40)),
    errors.SceneError("a.usda", "/World/Box", "mass is negative"),
    errors.SimulationError("box 7", "body_q", 12),
    errors.ConfigError("threads", "expected an integer"),
    errors.PluginError("solvers", "x", "is not known"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_pickling_keeps_type_fields_and_notes(error):
    error.add_note("while launching")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error) and vars(copy) == vars(error)
    assert isinstance(copy, errors.Error) and copy.__notes__ == ["while launching"]
    error.__notes__.clear()


def test_what_each_is_besides_an_engine_error():
    family = {type(error): type(error).__mro__ for error in EXAMPLES}
    assert {SyntaxError, RuntimeError, TypeError, ValueError} <= set(family[errors.CompileError])
    assert {RuntimeError, TypeError, ValueError} <= set(family[errors.LaunchError])


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_text_is_one_line(error):
    assert str(error) and "\n" not in str(error)


def test_texts_name_the_place():
    texts = [str(error) for error in EXAMPLES]
    assert texts[2] == "launch of 'saxpy': argument 'x' expects array of float32, got array of int32; cast it first"
    assert texts[3] == "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2), called with (0, 1099511627776)"
    assert texts[4] == "a.usda: /World/Box: mass is negative"
    assert texts[5] == "frame 12: body_q of body 'box 7' is not finite"
    assert str(errors.SceneError("", "box 7", "mass is negative")) == "box 7: mass is negative"


def test_python_draws_the_caret_under_a_compile_error():
    drawn = traceback.format_exception_only(EXAMPLES[0])
    assert "".join(drawn).splitlines()[:3] == ['  File "k.py", line 3', "    y = sine(x)", "        ^^^^"]
