"""LLVM text of the function that replays a graph on the CPU: a small interpreter of nodes, shared by several workers.

A graph is rows of eight int64 (`NODE_SLOTS`), which one worker, the *leader*, walks through:

    RUN     a kernel over a grid: range function, parameters, size or capacity, address of an i32 count or 0
    BRANCH  goes to `target` where the i32 at `count` is 0, else on
    JUMP    goes to `target`
    STAMP   writes the time in nanoseconds to the i64 at `count`
    END

The leader runs a small grid itself: no worker has to wait for another. A grid that pays for it is offered to the other
workers, which claim chunks beside the leader; it goes on when all chunks are done, whoever did them.

    leader    run run run │ offer: claim, claim … wait │ run run │ offer: claim …
    follower  (idle)        claim, claim, claim …        (idle)    claim, claim …

An offer is one atomic word: row << 32 | chunks << 16 | next chunk. A claim adds 1 to it, so that what it returns alone
says which chunk of which row was got, or that there is none left; a worker that comes late cannot mistake one offer for
another. A follower that finds nothing for a while leaves, and sleeps as the OpenMP runtime lets it; when all have left,
the next offer enters a region anew. So nobody waits busily for longer than that, and the leader, where it has to wait
for a chunk, gives its processor away after a while.

Chunks depend on the grid alone. Which grids are offered depends on what a thread of the node took so far (`cost`,
nanoseconds): it decides about time, never about results.
"""

from __future__ import annotations

from string import Template

NODE_SLOTS = ("kind", "range_fn", "params", "size", "count", "cost", "size_now", "target")  # target: chunk of a RUN
END, RUN, BRANCH, JUMP, STAMP = range(5)

# int64 slots of the context, by cache line: constants of a replay; its state; the offer; chunks done; followers
CONTEXT_SLOTS = {
    "nodes": 0, "row": 1, "workers": 2, "parallel": 3, "enter_ns": 4, "offer_ns": 5, "timed": 6,
    "replays": 7, "code": 8, "helped": 9, "offer": 16, "done": 24, "tickets": 32, "left": 33, "closing": 34,
}  # fmt: skip
CONTEXT_BYTES = 320
FINISHED, ENTER, OUT_OF_FUEL = range(3)  # what `weft_replay` returns (ENTER: only within)

CHUNK_MULTIPLE = 16  # threads of a chunk: one cache line of float32, and a whole number of SIMD groups
CHUNKS_PER_GRID = 256  # enough to balance uneven chunks over many workers, few enough that claiming one costs nothing
_PATIENCE = 2000  # rounds that a worker looks for a chunk, or the leader for an end, before it leaves or yields
_YIELD_EVERY = 100  # rounds between two yields after that

_TEXT = Template("""
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void $pause_declaration

define internal i64 @now() {
  %at = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 $clock, ptr %at)
  %seconds = load i64, ptr %at
  %rest.at = getelementptr i64, ptr %at, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; claims and runs chunks of the present offer until none is left; how many it ran
define internal i64 @work(ptr %context, ptr %nodes) {
entry:
  %offer.at = getelementptr i64, ptr %context, i64 $offer
  %done.at = getelementptr i64, ptr %context, i64 $done
  br label %look
look:
  %ran = phi i64 [ 0, %entry ], [ %ran.more, %run ]
  %seen = load atomic i64, ptr %offer.at acquire, align 8
  %seen.next = and i64 %seen, 65535
  %seen.high = lshr i64 %seen, 16
  %seen.all = and i64 %seen.high, 65535
  %some = icmp ult i64 %seen.next, %seen.all
  br i1 %some, label %claim, label %none
claim:
  %got = atomicrmw add ptr %offer.at, i64 1 acq_rel
  %next = and i64 %got, 65535
  %high = lshr i64 %got, 16
  %all = and i64 %high, 65535
  %mine = icmp ult i64 %next, %all
  br i1 %mine, label %run, label %none
run:
  %row = lshr i64 %got, 32
  %slot = shl i64 %row, 3
  %node = getelementptr i64, ptr %nodes, i64 %slot
  %range.at = getelementptr i64, ptr %node, i64 1
  %range = load ptr, ptr %range.at
  %params.at = getelementptr i64, ptr %node, i64 2
  %params = load ptr, ptr %params.at
  %size.at = getelementptr i64, ptr %node, i64 6
  %size = load i64, ptr %size.at
  %chunk.at = getelementptr i64, ptr %node, i64 7
  %chunk = load i64, ptr %chunk.at
  %begin = mul i64 %next, %chunk
  %whole = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %whole, i64 %size)
  call void %range(ptr %params, i64 %begin, i64 %end)
  %ran.more = add i64 %ran, 1
  br label %look
none:
  %any = icmp ne i64 %ran, 0
  br i1 %any, label %tell, label %out
tell:
  %before = atomicrmw add ptr %done.at, i64 %ran acq_rel
  br label %out
out:
  ret i64 %ran
}

define internal void @follow(ptr %context) {
entry:
  %nodes = load ptr, ptr %context
  %closing.at = getelementptr i64, ptr %context, i64 $closing
  %state = call i64 @enter()
  br label %look
look:
  %idle = phi i64 [ 0, %entry ], [ %idle.next, %again ]
  %all = phi i64 [ 0, %entry ], [ %all.next, %again ]
  %ran = call i64 @work(ptr %context, ptr %nodes)
  %all.next = add i64 %all, %ran
  %nothing = icmp eq i64 %ran, 0
  %idle.more = add i64 %idle, 1
  %idle.next = select i1 %nothing, i64 %idle.more, i64 0
  %closing = load atomic i64, ptr %closing.at monotonic, align 8
  %open = icmp eq i64 %closing, 0
  %patient = icmp ult i64 %idle.next, $patience
  %stay = and i1 %open, %patient
  br i1 %stay, label %again, label %leave
again:
  call void $pause
  br label %look
leave:
  call void @leave(i64 %state)
  %helped = icmp ne i64 %all, 0
  %one = zext i1 %helped to i64
  %helped.at = getelementptr i64, ptr %context, i64 $helped
  %helped.old = atomicrmw add ptr %helped.at, i64 %one monotonic
  %left.at = getelementptr i64, ptr %context, i64 $left
  %left.old = atomicrmw add ptr %left.at, i64 1 acq_rel
  ret void
}

; offers all chunks of a row to everybody, works along, and returns when all are done
define internal void @share(ptr %context, ptr %nodes, ptr %node, i64 %row, i64 %size) {
entry:
  %offer.at = getelementptr i64, ptr %context, i64 $offer
  %done.at = getelementptr i64, ptr %context, i64 $done
  %size.at = getelementptr i64, ptr %node, i64 6
  store i64 %size, ptr %size.at
  %round = add i64 %size, $chunks_less_one
  %each = udiv i64 %round, $chunks
  %lifted = add i64 %each, $multiple_less_one
  %chunk = and i64 %lifted, -$multiple
  %chunk.at = getelementptr i64, ptr %node, i64 7
  store i64 %chunk, ptr %chunk.at
  %size.up = add i64 %size, %chunk
  %size.last = sub i64 %size.up, 1
  %all = udiv i64 %size.last, %chunk
  store atomic i64 0, ptr %done.at monotonic, align 8
  %row.high = shl i64 %row, 32
  %all.high = shl i64 %all, 16
  %offer = or i64 %row.high, %all.high
  store atomic i64 %offer, ptr %offer.at release, align 8
  %ran = call i64 @work(ptr %context, ptr %nodes)
  br label %wait
wait:
  %rounds = phi i64 [ 0, %entry ], [ %rounds.next, %spin ], [ $tired, %yield ]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %ready = icmp eq i64 %done, %all
  br i1 %ready, label %out, label %busy
busy:
  %rounds.next = add i64 %rounds, 1
  %tired = icmp ugt i64 %rounds.next, $patience
  br i1 %tired, label %yield, label %spin
spin:
  call void $pause
  br label %wait
yield:
  %status = call i32 @sched_yield()
  br label %wait
out:
  ret void
}

; cost of a thread, taken over from a measurement: upwards only step by step, since a run may have been interrupted
define internal void @learn(ptr %node, i64 %begin, i64 %size, i1 %shared, i64 %workers) {
  %end = call i64 @now()
  %all = sub i64 %end, %begin
  %span.raw = sub i64 %all, $clock_cost
  %span = call i64 @llvm.smax.i64(i64 %span.raw, i64 0)
  %times = select i1 %shared, i64 %workers, i64 1
  %work = mul i64 %span, %times
  %work.f = sitofp i64 %work to double
  %size.f = sitofp i64 %size to double
  %measured = fdiv double %work.f, %size.f
  %cost.at = getelementptr i64, ptr %node, i64 5
  %cost = load double, ptr %cost.at
  %twice = fmul double %cost, 2.0
  %most.alone = fadd double %twice, 1.0
  %most = select i1 %shared, double %cost, double %most.alone
  %fits = fcmp olt double %measured, %most
  %new = select i1 %fits, double %measured, double %most
  store double %new, ptr %cost.at
  ret void
}

; walks the rows from the context's row on (0 again at the end);
; returns FINISHED, OUT_OF_FUEL, or ENTER at a row that should be shared
define internal i64 @lead(ptr %context, i1 %inside) {
entry:
  %nodes = load ptr, ptr %context
  %row.at = getelementptr i64, ptr %context, i64 $row
  %row.first = load i64, ptr %row.at
  %workers.at = getelementptr i64, ptr %context, i64 $workers
  %workers = load i64, ptr %workers.at
  %several = icmp ugt i64 %workers, 1
  %limit.slot = select i1 %inside, i64 $offer_ns, i64 $enter_ns
  %limit.at = getelementptr i64, ptr %context, i64 %limit.slot
  %limit = load double, ptr %limit.at
  %timed.at = getelementptr i64, ptr %context, i64 $timed
  %timed.i64 = load i64, ptr %timed.at
  %timed = icmp ne i64 %timed.i64, 0
  %tickets.at = getelementptr i64, ptr %context, i64 $tickets
  %left.at = getelementptr i64, ptr %context, i64 $left
  %state = call i64 @enter()
  br label %visit
visit:
  %row = phi i64 [ %row.first, %entry ], [ %row.on, %on ], [ %row.taken, %branch ], [ %target.jump, %jump ]
  %fuel = phi i64 [ $fuel, %entry ], [ %fuel, %on ], [ %fuel, %branch ], [ %fuel.less, %jump ]
  %slot = shl i64 %row, 3
  %node = getelementptr i64, ptr %nodes, i64 %slot
  %kind = load i64, ptr %node
  %count.at = getelementptr i64, ptr %node, i64 4
  %count = load ptr, ptr %count.at
  %target.at = getelementptr i64, ptr %node, i64 7
  switch i64 %kind, label %end [ i64 1, label %run i64 2, label %branch i64 3, label %jump i64 4, label %stamp ]
run:
  %size.at = getelementptr i64, ptr %node, i64 3
  %capacity = load i64, ptr %size.at
  %counted = icmp ne ptr %count, null
  br i1 %counted, label %indirect, label %sized
indirect:
  %count.i32 = load i32, ptr %count
  %count.i64 = sext i32 %count.i32 to i64
  %limited = call i64 @llvm.smin.i64(i64 %count.i64, i64 %capacity)
  br label %sized
sized:
  %size = phi i64 [ %capacity, %run ], [ %limited, %indirect ]
  %work = icmp sgt i64 %size, 0
  br i1 %work, label %weigh, label %on
weigh:
  %cost.at = getelementptr i64, ptr %node, i64 5
  %cost = load double, ptr %cost.at
  %size.f = sitofp i64 %size to double
  %span = fmul double %cost, %size.f
  %pays = fcmp oge double %span, %limit
  %parts = icmp ugt i64 %size, $multiple
  %shares = and i1 %pays, %parts
  %shared = and i1 %shares, %several
  br i1 %shared, label %team, label %alone
alone:
  %range.at = getelementptr i64, ptr %node, i64 1
  %range = load ptr, ptr %range.at
  %params.at = getelementptr i64, ptr %node, i64 2
  %params = load ptr, ptr %params.at
  br i1 %timed, label %alone.timed, label %alone.plain
alone.plain:
  call void %range(ptr %params, i64 0, i64 %size)
  br label %on
alone.timed:
  %alone.begin = call i64 @now()
  call void %range(ptr %params, i64 0, i64 %size)
  call void @learn(ptr %node, i64 %alone.begin, i64 %size, i1 false, i64 1)
  br label %on
team:
  br i1 %inside, label %team.look, label %need
team.look:
  %left = load atomic i64, ptr %left.at acquire, align 8
  %tickets = load atomic i64, ptr %tickets.at monotonic, align 8
  %followers = sub i64 %tickets, 1
  %all.left = icmp eq i64 %left, %followers
  %some.left = icmp ne i64 %left, 0
  %deserted = and i1 %all.left, %some.left
  %far = fcmp oge double %span, $reenter_ns
  %again = and i1 %deserted, %far
  br i1 %again, label %need, label %team.run
team.run:
  br i1 %timed, label %team.timed, label %team.plain
team.plain:
  call void @share(ptr %context, ptr %nodes, ptr %node, i64 %row, i64 %size)
  br label %on
team.timed:
  %team.begin = call i64 @now()
  call void @share(ptr %context, ptr %nodes, ptr %node, i64 %row, i64 %size)
  call void @learn(ptr %node, i64 %team.begin, i64 %size, i1 true, i64 %workers)
  br label %on
stamp:
  %time = call i64 @now()
  store i64 %time, ptr %count
  br label %on
on:
  %row.on = add i64 %row, 1
  br label %visit
branch:
  %condition = load i32, ptr %count
  %target.branch = load i64, ptr %target.at
  %false = icmp eq i32 %condition, 0
  %row.after = add i64 %row, 1
  %row.taken = select i1 %false, i64 %target.branch, i64 %row.after
  br label %visit
jump:
  %target.jump = load i64, ptr %target.at
  %fuel.less = sub i64 %fuel, 1
  %empty = icmp sle i64 %fuel.less, 0
  br i1 %empty, label %pause, label %visit
pause:
  br label %stop
need:
  br label %stop
end:
  br label %stop
stop:
  %row.stop = phi i64 [ %target.jump, %pause ], [ %row, %need ], [ 0, %end ]
  %code = phi i64 [ 2, %pause ], [ 1, %need ], [ 0, %end ]
  store i64 %row.stop, ptr %row.at
  call void @leave(i64 %state)
  ret i64 %code
}

; what each worker of a region runs: the first one leads
define internal void @weft_team(ptr %context) nounwind {
entry:
  %tickets.at = getelementptr i64, ptr %context, i64 $tickets
  %ticket = atomicrmw add ptr %tickets.at, i64 1 acq_rel
  %first = icmp eq i64 %ticket, 0
  br i1 %first, label %leader, label %follower
leader:
  %code = call i64 @lead(ptr %context, i1 true)
  %code.at = getelementptr i64, ptr %context, i64 $code
  store i64 %code, ptr %code.at
  %closing.at = getelementptr i64, ptr %context, i64 $closing
  store atomic i64 1, ptr %closing.at release, align 8
  ret void
follower:
  call void @follow(ptr %context)
  ret void
}

define i64 @weft_replay(ptr %context) nounwind {
entry:
  %parallel.at = getelementptr i64, ptr %context, i64 $parallel
  %parallel = load ptr, ptr %parallel.at
  %workers.at = getelementptr i64, ptr %context, i64 $workers
  %workers = load i64, ptr %workers.at
  %workers.i32 = trunc i64 %workers to i32
  %tickets.at = getelementptr i64, ptr %context, i64 $tickets
  %left.at = getelementptr i64, ptr %context, i64 $left
  %closing.at = getelementptr i64, ptr %context, i64 $closing
  %offer.at = getelementptr i64, ptr %context, i64 $offer
  %code.at = getelementptr i64, ptr %context, i64 $code
  %row.at = getelementptr i64, ptr %context, i64 $row
  %row = load i64, ptr %row.at
  %fresh = icmp eq i64 %row, 0
  br i1 %fresh, label %begin, label %go
begin:
  %replays.at = getelementptr i64, ptr %context, i64 $replays
  %replays.old = load i64, ptr %replays.at
  %replays = add i64 %replays.old, 1
  store i64 %replays, ptr %replays.at
  %early = icmp ule i64 %replays, $timed_first
  %turn = and i64 %replays, $timed_mask
  %due = icmp eq i64 %turn, 0
  %timed = or i1 %early, %due
  %timed.i64 = zext i1 %timed to i64
  %timed.at = getelementptr i64, ptr %context, i64 $timed
  store i64 %timed.i64, ptr %timed.at
  %helped.at = getelementptr i64, ptr %context, i64 $helped
  store i64 0, ptr %helped.at
  br label %go
go:
  %alone = call i64 @lead(ptr %context, i1 false)
  br label %judge
judge:
  %code = phi i64 [ %alone, %go ], [ %code.team, %region ]
  %enter = icmp eq i64 %code, 1
  br i1 %enter, label %region, label %out
region:
  store i64 0, ptr %tickets.at
  store i64 0, ptr %left.at
  store i64 0, ptr %closing.at
  store i64 0, ptr %offer.at
  call void %parallel(ptr @weft_team, ptr %context, i32 %workers.i32, i32 0)
  %code.team = load i64, ptr %code.at
  br label %judge
out:
  ret i64 %code
}
""")

_PAUSE = {
    "x86_64": ("@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"),
    "aarch64": ("@llvm.aarch64.hint(i32)", "@llvm.aarch64.hint(i32 1)"),
}
_PAUSE["arm64"] = _PAUSE["aarch64"]
_FUEL = 1024  # turns of loops after which `weft_replay` returns, so that the user can interrupt
_TIMED_FIRST, _TIMED_MASK = 12, 31  # the first replays and then every 32nd measure what each launch costs
_CLOCK_COST = 40  # nanoseconds between two readings of the clock with nothing between them
_REENTER_NS = 30_000.0  # work for which a region is entered again after all followers have left it


def replay_text(architecture: str, clock: int) -> str:
    """The functions, to be put beside `enter` and `leave` of `target_host`; `clock`: number of the monotonic clock."""
    declaration, pause = _PAUSE[architecture]
    return _TEXT.substitute(
        CONTEXT_SLOTS, pause_declaration=declaration, pause=pause, clock=clock, patience=_PATIENCE,
        tired=_PATIENCE - _YIELD_EVERY, chunks=CHUNKS_PER_GRID, chunks_less_one=CHUNKS_PER_GRID - 1,
        multiple=CHUNK_MULTIPLE, multiple_less_one=CHUNK_MULTIPLE - 1, fuel=_FUEL, timed_first=_TIMED_FIRST,
        timed_mask=_TIMED_MASK, clock_cost=_CLOCK_COST, reenter_ns=_REENTER_NS,
    )  # fmt: skip
