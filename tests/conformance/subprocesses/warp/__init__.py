"""What `import warp` finds in processes that Warp's tests start: the engine, as in the process of the tests."""

import os

import run

run.prepare(os.environ["WARP_TESTS"])
