divert(-1)
m4_once(<|wo_a_sm100_steps.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_100f: the sizes that are this architecture's own, and the steps of the kernel
// that occur more than once.

constant(<|MMA_K|>, 32)                    // K of one mma: one scale block
constant(<|MMA_STEPS|>, STAGE_K / MMA_K)
constant(<|ACC_COLUMNS|>, m4_power_of_2(TILE))
constant(<|MMA_N|>, m4_max(8, ACC_COLUMNS)) // token rows: N of the mma

// Threads: 128 quantize one token, 4 elements each.
constant(<|TOKEN_THREADS|>, HEAD_DIM / 4)
constant(<|THREADS|>, m4_min(512, TOKEN_THREADS * ACC_COLUMNS))
constant(<|TOKENS_PER_ITERATION|>, THREADS / TOKEN_THREADS)
constant(<|ITERATIONS|>, m4_ceil_div(TILE, TOKENS_PER_ITERATION))
// Tokens of the last iteration when not all threads have one, else 0.
constant(<|LAST_TOKENS|>, TILE % TOKENS_PER_ITERATION)
// The swizzle of the activations counts on it: iterations are 4 rows apart, 2 are 8 rows.
m4_assert(ITERATIONS == 1 || TOKENS_PER_ITERATION == 4, <|tokens an iteration|>)
constant(<|FIRST_ROPE_QUAD|>, (HEAD_DIM - ROPE_DIM) / 4)
constant(<|EPILOGUE_THREADS|>, TILE_N)     // one a weight row
constant(<|MAX_REGISTERS|>, 64)            // at 512 threads an early successor fits beside us

// Shared memory, bytes.
constant(<|X_STAGE|>, MMA_N * STAGE_K)

// Tensor memory, columns.
constant(<|TMEM_COLUMNS|>, 64)
constant(<|TMEM_SCALES|>, 32)              // stage s: A at 32 + 8s, B at 36 + 8s
define(<|TMEM_SCALES_A|>, <|eval(TMEM_SCALES + 8 * ($1))|>)
define(<|TMEM_SCALES_B|>, <|eval(TMEM_SCALES + 8 * ($1) + 4)|>)
m4_assert(ACC_COLUMNS <= TMEM_SCALES && TMEM_SCALES + 8 * STAGES <= TMEM_COLUMNS, <|TMEM map|>)

constant(<|SENT_TO|>, m4_min(HEADS, TILE)) // ranks that own a token

// Named barriers; 0 is that of all threads.
constant(<|BARRIER_REDUCED|>, 1)
constant(<|BARRIER_ACCUMULATED|>, 2)
constant(<|BARRIER_TMEM_READ|>, 3)

// Element J of the quad of iteration I.
define(<|V|>, <|v<||>eval(4 * ($1) + $2)|>)

// What depends on the iteration: whether all threads have a token, the predicate if not.
define(<|IS_LAST|>, <|($1 == ITERATIONS - 1 && LAST_TOKENS > 0)|>)
define(<|GUARD|>, <|m4_if(IS_LAST($1), <|@in_last |>)|>)

// Usage: existing_row(REGISTER, ITERATION)
// out: REGISTER (u32) = our token of that iteration, in the call, or the last one
macro(<|existing_row|>, 2, <|
m4_if($2 == 0, <|min.u32 $1, x_row, last_row;|>, <|add.u32 $1, x_row, eval(TOKENS_PER_ITERATION * $2);
min.u32 $1, $1, last_row;|>)|>)

// Usage: send_part(FIRST, COUNT, OFFSET)
// in: p FIRST, FIRST + HEADS, ..: COUNT partial sums, to consecutive words at to + OFFSET, in
// the CTA of mbarrier to_reduced.  Nothing when COUNT <= 0.
macro(<|send_part|>, 3, <|
m4_if($2 > 0, <|send_words(to, $3, to_reduced,
  m4_list(<|WORD|>, 0, $2 - 1, <|p<||>eval($1 + WORD * HEADS)|>))|>)|>)

// Usage: sum_part(PART, COUNT)
// out: s PART _0 .. = sums over all heads, in their order, of COUNT slots from PART * CHUNK.
// Of a slot that this rank does not own, the sum of whatever the inbox holds: it is not used.
macro(<|sum_part|>, 2, <|
.reg .b32 s$1_<$2>;
{
  .reg .b32 w<m4_power_of_2($2)>;
m4_for(<|PEER|>, 0, HEADS - 1, <|
  load_words(m4_power_of_2($2), w, inbox+eval(S_INBOX + PEER * INBOX_PEER + $1 * INBOX_CHUNK))
m4_for(<|WORD|>, 0, $2 - 1, <|
  add.rn.f32 s$1_<||>WORD, m4_if(PEER, <|s$1_<||>WORD|>, F32_ZERO), w<||>WORD;
|>)dnl
|>)dnl
}|>)
macro(<|load_words|>, 3, <|
ld.shared<||>m4_if($1 > 1, <|.v$1|>).b32 m4_if($1 > 1, <|{m4_list(<|WORD|>, 0, $1 - 1, <|$2<||>WORD|>)}|>, $2<||>0), [$3];|>)

// Usage: store_output(SUM)
// in: SUM (f32), output column n_tile * 128 + tid of token out_row, which exists.
// Quantizes the 32 columns of a warp with one scale.
// in: q_to, qs_tile, out_row, lane0
macro(<|store_output|>, 1, <|
{
  .reg .b32 y, scale, inverse, qs_offset, qs_high;
  .reg .f32 amax;
  .reg .b16 code;
  .reg .b64 qs_to;
  round_to_bf16(y, $1)
  redux.sync.max.abs.f32 amax, y, 0xffffffff;
  ue8m0_of_any_amax(scale, inverse, amax)
  mul.rn.f32 y, y, inverse;
  e4m3(code, y)
m4_if(!FULL, <|dnl
  .reg .pred live, live_lane0;
  setp.lt.u32 live, out_row, end;  // rows past the end are not stored
  and.pred live_lane0, live, lane0;
|>)dnl
  m4_if(!FULL, <|@live |>)st.global.b8 [q_to], code;
  // scale of (token t, column n) at t % 32 * 16 + t / 32 * 4 + n % 128 / 32
  and.b32 qs_offset, out_row, 31;
  shr.u32 qs_high, out_row, 5;
  mad.lo.u32 qs_offset, qs_offset, 16, warp;
  mad.lo.u32 qs_offset, qs_high, 4, qs_offset;
  cvt.u64.u32 qs_to, qs_offset;
  add.u64 qs_to, qs_to, qs_tile;
  m4_if(FULL, <|@lane0|>, <|@live_lane0|>) st.global.b8 [qs_to], scale;
}|>)

divert(0)dnl
