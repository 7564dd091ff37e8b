include(`prelude.m4')dnl
include(<|pdl.m4|>)dnl
include(<|mailbox.m4|>)dnl
divert(-1)
// ---- the specialization: one row of table.tsv ---------------------------------------

m4_integer(<|BW_BLOCK|>, 32, 1024)  // threads
m4_assert(BW_BLOCK % 32 == 0, <|BW_BLOCK is no number of warps|>)
constant(<|BLOCK|>, BW_BLOCK)
constant_text(<|KEY|>, <|b|>BLOCK)
ifelse(BW_KEY, KEY, <||>, <|m4_error(<|key |>BW_KEY<| where the columns say |>KEY)|>)
ifelse(BW_ARCH, sm_100f, <||>, BW_ARCH, sm_90a, <||>, <|m4_error(<|no such architecture: |>BW_ARCH)|>)

// Parameter `flags`.
constant(<|FLAG_TRIGGER|>, 3)      // bits 0-1: 0 late, 1 entry, 2 after the wait
constant(<|TRIGGER_LATE|>, 0)
constant(<|TRIGGER_ENTRY|>, 1)
constant(<|TRIGGER_AFTER_WAIT|>, 2)
constant(<|FLAG_WAIT_FIRST|>, 4)   // bit 2: nothing is read before the wait

constant(<|CHUNK_BYTES|>, 16)      // 4 words: what one thread polls and copies at a time

// Usage: trigger_at(PLACE)     one thread a CTA
macro(<|trigger_at|>, 1, <|
{
  .reg .pred here;
  setp.eq.and.u32 here, trigger, $1, first_thread;  // $1
  pdl_trigger_if(here)
}|>)

// Usage: poll(LABEL)
// Until no word of chunk `index` is empty.  out: word0 .. word3.  Words are compared as
// integers: an empty one is -0 as bf16 and a subnormal as f32, and would equal others.
// After poll_limit rounds (0: never) it notes the chunk in *stuck and gives up.
macro(<|poll|>, 1, <|
{
  .reg .b64 at;
  .reg .b32 round, limit;
  .reg .pred whole, limited, given_up;
  mad.wide.u32 at, index, CHUNK_BYTES, ring_from;  // CHUNK_BYTES
  ld.param.u32 limit, [poll_limit];
  setp.ne.u32 limited, limit, 0;
  mov.u32 round, 0;
again:
  ld.relaxed.sys.global.v4.b32 {word0, word1, word2, word3}, [at];
  setp.ne.u32 whole, word0, EMPTY_WORD;
  setp.ne.and.u32 whole, word1, EMPTY_WORD, whole;
  setp.ne.and.u32 whole, word2, EMPTY_WORD, whole;
  setp.ne.and.u32 whole, word3, EMPTY_WORD, whole;
  @whole bra $1;
  add.u32 round, round, 1;
  setp.eq.and.u32 given_up, round, limit, limited;
  @!given_up bra again;
  note_stuck
}
$1:|>)

// Usage: note_stuck
// in: word0 .. word3, some of them empty.  *stuck = the chunk's number times 16, plus one
// bit for each empty word: never 0.  Only the first thread that gets here writes it, maybe
// before griddepcontrol.wait: only copies do, and an earlier one is complete (see step).
macro(<|note_stuck|>, 0, <|
{
  .reg .b64 note;
  .reg .b32 what, bit, before;
  .reg .pred wanted, empty;
  ld.param.u64 note, [stuck];
  setp.ne.u64 wanted, note, 0;
  @!wanted bra noted;
  cvta.to.global.u64 note, note;
  shl.b32 what, index, 4;
m4_for(<|W|>, 0, 3, <|
  setp.eq.u32 empty, word<||>W, EMPTY_WORD;
  selp.b32 bit, eval(1 << W), 0, empty;
  or.b32 what, what, bit;
|>)dnl
  atom.relaxed.sys.global.cas.b32 before, [note], 0, what;
noted:
}|>)
divert(0)dnl
// SPDX-License-Identifier: Apache-2.0
//
// lamport_copy: takes the rows of one step out of the mailbox and re-arms it.
//
fact(<|family|>, <|lamport_copy|>)
fact(<|arch|>, BW_ARCH)
fact(<|key|>, KEY)
fact(<|symbol|>, <|bw_lamport_copy_|>KEY)
fact(<|threads|>, BLOCK)
fact(<|cluster|>, 1)
fact(<|shared_dynamic|>, 0)
fact(<|waits|>, 1)
fact(<|attr.chunk_bytes|>, CHUNK_BYTES)
fact(<|attr.generations|>, GENERATIONS)
//
// void bw_lamport_copy(const bf16 *ring,           this rank's mailbox, generation 0
//                      bf16 *out,                  [M, hidden], 16-byte aligned
//                      uint32_t *steps,            steps completed; steps[1]: tickets
//                      uint32_t *stuck,            0 so far, or NULL: see poll_limit
//                      uint32_t chunks,            M * hidden * 2 / 16
//                      uint32_t generation_bytes,  2 hidden * capacity
//                      uint32_t poll_limit,        0: poll for ever; else give up after so
//                                                  many rounds and say so in *stuck
//                      uint32_t flags)             bits 0-1: trigger late, at entry, after
//                                                  the wait; bit 2: nothing read before it
//
remark(<|Launch: grid (any, 1, 1), block (|>BLOCK<|, 1, 1).  Chunks go round the grid.|>)
// A grid that polls occupies its SMs until the data comes, so the caller bounds it well
// below what the GPU holds: the producer that the poll waits for must find room.
//
// Before griddepcontrol.wait it only polls, and notes that it gave up; out, re-arming and the
// count come after.
//
// Barriers.
//   bar 0  all threads: the CTA has read the count and re-armed its words
//
// Registers that live throughout, by role:
//   first_thread       predicate: thread 0
//   trigger            where dependents may start
//   step               steps completed before this one
//   index, stride      this thread's chunk; threads of the grid
//   ring_from          the generation of this step
//   out_from           out
//   word0 .. word3     the chunk

.version 9.0
.target BW_ARCH
.address_size 64

.visible .entry bw_lamport_copy_<||>KEY<||>(
  .param .u64 ring,
  .param .u64 out,
  .param .u64 steps,
  .param .u64 stuck,
  .param .u32 chunks,
  .param .u32 generation_bytes,
  .param .u32 poll_limit,
  .param .u32 flags
)
.reqntid BLOCK, 1, 1
{
  .reg .pred first_thread, wait_first, any;
  .reg .b32 trigger, step, index, stride, count, ctas, word<4>;
  .reg .b64 ring_from, out_from, steps_at;

  // ---- who and where we are -----------------------------------------------------------
  {
    .reg .b32 tid, cta, flag_bits, bit;
    mov.u32 tid, %tid.x;
    setp.eq.u32 first_thread, tid, 0;
    mov.u32 cta, %ctaid.x;
    mov.u32 ctas, %nctaid.x;
    mad.lo.u32 index, cta, BLOCK, tid;  // BLOCK
    mul.lo.u32 stride, ctas, BLOCK;  // BLOCK
    ld.param.u32 flag_bits, [flags];
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    and.b32 bit, flag_bits, FLAG_WAIT_FIRST;  // FLAG_WAIT_FIRST
    setp.ne.u32 wait_first, bit, 0;
    ld.param.u32 count, [chunks];
    setp.lt.u32 any, index, count;
    ld.param.u64 out_from, [out];
    cvta.to.global.u64 out_from, out_from;
    ld.param.u64 steps_at, [steps];
    cvta.to.global.u64 steps_at, steps_at;
  }
  trigger_at(TRIGGER_ENTRY)
  pdl_wait_if(wait_first)

  // ---- the generation of this step ------------------------------------------------------
  // Read before the wait, this is still the count that the last reader left: the producer
  // of this step triggered us only after its own wait for that reader, and fenced.  It is
  // read where that fence put it, in L2: an L1 may have an older one.
  ld.relaxed.gpu.global.u32 step, [steps_at];
  {
    .reg .b32 bytes;
    ld.param.u64 ring_from, [ring];
    cvta.to.global.u64 ring_from, ring_from;
    ld.param.u32 bytes, [generation_bytes];
    generation_start(ring_from, ring_from, step, bytes)
  }

  // ---- poll: may begin while the producer still runs ---------------------------------------
  only_begin(first_polled, any)
  poll(first_whole)
  only_end_apart
  pdl_wait
  trigger_at(TRIGGER_AFTER_WAIT)

  // ---- copy, re-arm, next chunk -------------------------------------------------------------
  only_begin(copied, any)
next_chunk:
  {
    .reg .b64 at;
    .reg .pred more;
    mad.wide.u32 at, index, CHUNK_BYTES, out_from;  // CHUNK_BYTES
    st.global.v4.b32 [at], {word0, word1, word2, word3};
    mad.wide.u32 at, index, CHUNK_BYTES, ring_from;  // CHUNK_BYTES
    st.relaxed.sys.global.v4.b32 [at], {EMPTY_WORD, EMPTY_WORD, EMPTY_WORD, EMPTY_WORD};
    add.u32 index, index, stride;
    setp.lt.u32 more, index, count;
    @!more bra all_taken;
    poll(next_whole)
    bra next_chunk;
all_taken:
  }
  // What the ranks did before they stored these words happened before what this rank does
  // next: the other half of the edge that the producer makes before it stores.
  fence.acquire.sys;
  only_end_apart

  // ---- the last CTA advances the count ------------------------------------------------------
  // By now every thread of this CTA has read it; the last ticket knows that all CTAs have.
  bar.sync 0;
  only_begin(counted, first_thread)
  {
    .reg .b32 ticket, last;
    .reg .pred last_cta;
    sub.u32 last, ctas, 1;
    atom.acq_rel.gpu.global.inc.u32 ticket, [steps_at+4], last;  // back to 0 after the last
    setp.eq.u32 last_cta, ticket, last;
    add.u32 step, step, 1;
    @last_cta st.relaxed.gpu.global.u32 [steps_at], step;
  }
  only_end_apart
  trigger_at(TRIGGER_LATE)
  exit;
}
