"""The emulated GPU: a stand-in for `cuda.bindings.driver` that executes PTX text on the CPU.

driver.py     the driver's functions, with the names, parameters and status codes of the real one
memory.py     allocations, the table that every access of a kernel is checked against, copies
loading.py    PTX text → parse → flow → translate → machine code (`engine.compiler.ptx_*`, `emit_warp32*`)
grid.py       one launch: its context, its warps, the run, and what stopped it
"""
