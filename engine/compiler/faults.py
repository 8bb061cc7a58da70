"""The fault record: where a running kernel notes the first check that failed, and how many did.

A `fault` op calls one native function, which takes a spin lock and keeps the finding of the lowest thread; a thread
meets its checks in the order of the program, so that its first one stays. What is kept is therefore the same however
many workers run the grid and whichever shape the code has. The record's address lies in the launch block's header,
8 bytes before the parameters.

    words   0       the lock
            1 … 4   how many checks of each kind failed (`CHECKS`)
            5 …     the first finding that ends the launch: thread, site, `VALUES` values
            12 …    the first division by zero, alike

A site is a number: the position of the `fault` op among all of the kernel's (`sites`).
"""

from __future__ import annotations

from engine.compiler.ir import Function, Op

CHECKS = ("bounds", "assert", "finite", "division")
VALUES = 5  # as many numbers a finding may have: four indices and a value
FINDING = 2 + VALUES  # words of a finding
FIRST_COUNT, FIRST_FAILURE = 1, 1 + len(CHECKS)
FIRST_DIVISION = FIRST_FAILURE + FINDING
WORDS = FIRST_DIVISION + FINDING
NO_THREAD = 2**63 - 1
HEADER_OFFSET = -8  # from the parameters to the record's address


def sites(fn: Function) -> list[Op]:
    """The `fault` ops of a MIR kernel; a site is an index into this list."""
    return [op for op in fn.body.walk() if op.kind == "fault"]


def finding_word(op: Op) -> int:
    """The word at which the finding of a `fault` op is kept."""
    return FIRST_DIVISION if op.attrs["check"] == "division" else FIRST_FAILURE


def count_word(op: Op) -> int:
    """The word that counts the faults of an op's kind."""
    return FIRST_COUNT + CHECKS.index(op.attrs["check"])


def _function() -> str:
    """The native function. Its lock is held for a few stores, and only by threads that are the lowest so far."""
    values = ", ".join(f"i64 %value{k}" for k in range(VALUES))
    stored = [f"""  %at{k} = getelementptr i64, ptr %finding, i64 {2 + k}
  store i64 %value{k}, ptr %at{k}""" for k in range(VALUES)]  # fmt: skip
    return "\n".join([f"""
define internal void @note_fault(ptr %record, i64 %count, i64 %where, i64 %thread, i64 %site, {values}) noinline cold nounwind {{
  %counter = getelementptr i64, ptr %record, i64 %count
  atomicrmw add ptr %counter, i64 1 monotonic, align 8
  %finding = getelementptr i64, ptr %record, i64 %where
  %known = load atomic i64, ptr %finding monotonic, align 8
  %lower = icmp slt i64 %thread, %known
  br i1 %lower, label %take, label %done
take:
  %pair = cmpxchg ptr %record, i64 0, i64 1 acquire monotonic, align 8
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %look, label %take
look:
  %now = load atomic i64, ptr %finding monotonic, align 8
  %lowest = icmp slt i64 %thread, %now
  br i1 %lowest, label %keep, label %leave
keep:
  store atomic i64 %thread, ptr %finding monotonic, align 8
  %site.at = getelementptr i64, ptr %finding, i64 1
  store i64 %site, ptr %site.at""", *stored, """  br label %leave
leave:
  store atomic i64 0, ptr %record release, align 8
  br label %done
done:
  ret void
}"""])  # fmt: skip  # noqa: E501


NOTE_FAULT = _function()
