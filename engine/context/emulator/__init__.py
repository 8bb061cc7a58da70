"""The emulated GPU: a stand-in for `cuda.bindings.driver` that executes PTX text on the CPU.

driver.py     the driver's functions, with the names, parameters and status codes of the real one: devices, contexts,
              memory, modules; work.py: copies, launches, streams, events; graph_calls.py: graphs
machine.py    the GPUs and who uses which; calls.py: what makes a method a call of the driver
graphs.py     graphs, and what is made of one to run it
memory.py     allocations, the table that every access of a kernel is checked against, copies
loading.py    PTX text → parse → flow → translate → machine code (`engine.compiler.ptx_*`, `emit_warp32*`)
grid.py       one launch: its context, its warps, the run, and what stopped it
"""
