"""The one kernel whose text is written by hand: it hands an int32 of an array to the conditional nodes of a graph.

`cudaGraphSetConditional` is a function of the driver, as `vprintf` is: the driver binds it when it loads the text.
"""

from __future__ import annotations

from string import Template

CONDITIONS_SINCE = (12, 4)  # CUDA version of the driver that first has conditional nodes
ENTRY = b"weft_set_condition"

_TEXT = Template("""\
.version $version
.target $arch
.address_size 64

.extern .func cudaGraphSetConditional
(
    .param .b64 cudaGraphSetConditional_param_0,
    .param .b32 cudaGraphSetConditional_param_1
);

// holds, fails: handles of the graphs that run where the condition holds and where it fails; 0 for none
.visible .entry weft_set_condition(
    .param .u64 condition,
    .param .u64 holds,
    .param .u64 fails
)
{
    .reg .pred %p<4>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;

    ld.param.b64 %rd1, [condition];
    ld.param.b64 %rd2, [holds];
    ld.param.b64 %rd3, [fails];
    ld.global.b32 %r1, [%rd1];
    setp.ne.s32 %p1, %r1, 0;
    selp.b32 %r2, 1, 0, %p1;
    selp.b32 %r3, 0, 1, %p1;
    setp.eq.s64 %p2, %rd2, 0;
    @%p2 bra $$second;
    {
    .param .b64 param0;
    st.param.b64 [param0], %rd2;
    .param .b32 param1;
    st.param.b32 [param1], %r2;
    call.uni cudaGraphSetConditional, (param0, param1);
    }
$$second:
    setp.eq.s64 %p3, %rd3, 0;
    @%p3 bra $$end;
    {
    .param .b64 param0;
    st.param.b64 [param0], %rd3;
    .param .b32 param1;
    st.param.b32 [param1], %r3;
    call.uni cudaGraphSetConditional, (param0, param1);
    }
$$end:
    ret;
}
""")


def condition_kernel(arch: str, version: int) -> str:
    """PTX of the kernel for an architecture ("sm_80"); version: 10 times that of PTX."""
    return _TEXT.substitute(arch=arch, version=f"{version // 10}.{version % 10}")
