divert(-1)
m4_once(<|wo_a_sm90_stream_steps.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_90a for T >= 5: the steps of wo_a_sm90_stream.ptx.m4, so that the template reads
// as the order of work.

// ---- where we are ---------------------------------------------------------------------

// Usage: place_in_grid(CTA)
// in: CTA (u32) = %ctaid.x.  out: rank, n_tile (the first), tiles, first_row
macro(<|place_in_grid|>, 1, <|
  {
    .reg .pred single;
    .reg .b32 clusters, count;
    place_in_cluster($1)
    mov.u32 clusters, %nctaid.x;
m4_if(HEADS > 1, <|dnl
    div.u32 clusters, clusters, HEADS;  // HEADS
|>)dnl
m4_if(GRID_Y > 1, <|dnl
    // Clusters start in the order of their number: those with the same weights are
    // neighbours, so that DRAM is read once.
    {
      .reg .b32 number;
      mov.u32 number, %ctaid.y;
      mad.lo.u32 number, number, clusters, n_tile;
      div.u32 n_tile, number, GRID_Y;  // GRID_Y
      mul.lo.u32 first_row, n_tile, GRID_Y;  // GRID_Y
      sub.u32 first_row, number, first_row;  // number % GRID_Y
      mul.lo.u32 first_row, first_row, TOKENS;  // TOKENS
    }
|>, <|dnl
    mov.u32 first_row, 0;
|>)dnl
    ld.param.u32 count, [n_total];
    shr.u32 count, count, m4_log2(TILE_N);  // n tiles
    setp.eq.u32 single, count, clusters;
    mov.u32 tiles, 1;
    @single bra.uni tiles_known;
    // Quotient and remainder, not cluster * count / clusters: that product may exceed 32 bits.
    {
      .reg .pred one_more;
      .reg .b32 rest, before;
      div.u32 tiles, count, clusters;
      mul.lo.u32 rest, tiles, clusters;
      sub.u32 rest, count, rest;  // count % clusters: the first so many have one more
      setp.lt.u32 one_more, n_tile, rest;
      min.u32 before, n_tile, rest;
      mad.lo.u32 n_tile, n_tile, tiles, before;
      @one_more add.u32 tiles, tiles, 1;
    }
tiles_known:
  }|>)

// Usage: clear_ranges
// The range of every token, before any block is known.  in: tid
macro(<|clear_ranges|>, 0, <|
{
  .reg .pred ranges;
  .reg .b32 at;
  setp.lt.u32 ranges, tid, COLUMNS;  // COLUMNS
  mad.lo.u32 at, tid, 8, smem;
  @ranges st.shared.v2.b32 [at+S_RANGE], {LEAST_TOKEN_SCALE, NO_SCALE_YET};  // S_RANGE
}|>)

// Usage: following_tile
// Steps to our team's next n tile, if there is one.  in/out: n_tile, tiles, parity,
// sent_before
macro(<|following_tile|>, 0, <|
sub.s32 tiles, tiles, TEAMS;  // TEAMS
add.u32 n_tile, n_tile, TEAMS;  // TEAMS
xor.b32 parity, parity, 1;
setp.eq.u32 sent_before, lane, lane;|>)

// Usage: other_team_follows
// Steps to the n tile after this one, which is the other team's, for a warp that serves all teams.
// in/out: n_tile, tiles, team, parity
macro(<|other_team_follows|>, 0, <|
{
  .reg .pred first;
  sub.u32 tiles, tiles, 1;
  add.u32 n_tile, n_tile, 1;
m4_if(TEAMS > 1, <|dnl
  setp.ne.u32 first, team, smem;  // the first team's is next
  mov.u32 team, smem;
  @!first add.u32 team, team, TEAM_BYTES;  // TEAM_BYTES
  @first xor.b32 parity, parity, 1;
|>, <|dnl
  xor.b32 parity, parity, 1;
|>)dnl
}|>)

// ---- scales of the weights -------------------------------------------------------------

// Usage: row_of_lane(ROW)
// out: ROW (u32), the first weight row that lane 4g + q has in a product: row g of its warp's.
// in: team_warp
macro(<|row_of_lane|>, 1, <|
shr.u32 $1, lane, 2;
mad.lo.u32 $1, team_warp, WARP_ROWS, $1;|>)

// Usage: load_row_words(WORDS, ADDRESS, OFFSET)
// out: WORDS0 .. WORDS3, the words of the row at ADDRESS + OFFSET
macro(<|load_row_words|>, 3, <|
m4_for(<|STAGE|>, 0, STAGES - 1, <|
ld.shared.b32 $1<||>STAGE, [$2+eval($3 + STAGE * SCALE_STAGE)];
|>)dnl|>)

// Usage: load_row_scales
// out: scales_a, scales_b, of the rows of this lane.  in: row; they were inspected
macro(<|load_row_scales|>, 0, <|
{
  .reg .b32 at;
  mad.lo.u32 at, row, 4, team;
  load_row_words(scales_a, at, S_W_SCALES)
  load_row_words(scales_b, at, S_W_SCALES + 8 * 4)  // 8 rows on, a word each
}|>)

// Usage: inspect_scales                         warp
// Works out from the scales of an n tile, once they are in, what its rows are to be multiplied by.
// in: parity, leader
macro(<|inspect_scales|>, 0, <|
{
  .reg .pred extreme, any_extreme;
  .reg .b32 at, flag;
  setp.ne.u32 extreme, lane, lane;
  mad.lo.u32 at, lane, 4, team;
  mbarrier_wait(AT(S_SCALES_LOADED), parity)
m4_for(<|QUARTER|>, 0, TILE_N / 32 - 1, <|
  {
    .reg .b32 words<STAGES>, top, fold, apply;
    load_row_words(words, at, S_W_SCALES + QUARTER * 32 * 4)
    inspect_row(top, fold, extreme, words)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
    add.u32 words<||>STAGE, words<||>STAGE, fold;
    shl.b32 words<||>STAGE, words<||>STAGE, 2;  // the place of f16's exponent in its upper byte
    st.shared.b32 [at+eval(S_W_FIELDS + STAGE * SCALE_STAGE + QUARTER * 32 * 4)], words<||>STAGE;  // S_W_FIELDS
|>)dnl
    f32_of_folded_top(apply, top)
    st.shared.b32 [at+eval(S_W_TOPS + QUARTER * 32 * 4)], apply;  // S_W_TOPS
  }
|>)dnl
  vote.sync.any.pred any_extreme, extreme, 0xffffffff;
  selp.b32 flag, 1, 0, any_extreme;
  @leader st.shared.b32 [AT(S_W_LONG)], flag;  // S_W_LONG
  bar.warp.sync 0xffffffff;
  @leader mbarrier.arrive.shared::cta.b64 _, [AT(S_INSPECTED)];
}|>)

// Usage: inspect_row(TOP, FOLD, EXTREME, WORDS)
// in: WORDS0 .. WORDS3, 16 scales.  out: TOP, the largest; FOLD, what to add to a word so that
// its bytes become exponent fields; EXTREME (predicate, or-ed to): this cannot be, or a NaN
macro(<|inspect_row|>, 4, <|
{
  .reg .b32 even, odd, part, all, span;
  and.b32 even, $4<||>0, 0x00ff00ff;
  shr.u32 odd, $4<||>0, 8;
  and.b32 odd, odd, 0x00ff00ff;
m4_for(<|STAGE|>, 1, STAGES - 1, <|
  and.b32 part, $4<||>STAGE, 0x00ff00ff;
  max.u16x2 even, even, part;
  shr.u32 part, $4<||>STAGE, 8;
  and.b32 part, part, 0x00ff00ff;
  max.u16x2 odd, odd, part;
|>)dnl
  max.u16x2 even, even, odd;
  shr.u32 odd, even, 16;
  and.b32 even, even, 0xffff;
  max.u32 $1, even, odd;
  mul.lo.u32 all, $1, 0x01010101;
  mov.b32 span, 0;
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  sub.u32 part, all, $4<||>STAGE;  // how far each is below the largest
  or.b32 span, span, part;
  and.b32 part, part, 0x7f7f7f7f;
  add.u32 part, part, m4_hex((127 - FOLD_SPAN) * 0x01010101);  // bit 7: beyond FOLD_SPAN
  or.b32 span, span, part;
|>)dnl
  and.b32 span, span, 0x80808080;
  setp.ne.or.u32 $3, span, 0, $3;
  setp.eq.or.u32 $3, $1, UE8M0_NAN, $3;  // UE8M0_NAN
  sub.u32 $2, m4_hex(FOLD_FIELD * 0x01010101), all;
}|>)

// Usage: f32_of_folded_top(SCALE, TOP)
// out: SCALE (b32) = the f32 2^(TOP - 127 - FOLD_TOP), TOP <= 254; below 2^-126 a denormal
macro(<|f32_of_folded_top|>, 2, <|
{
  .reg .pred normal;
  .reg .b32 field, bit;
  setp.gt.u32 normal, $2, FOLD_TOP;  // FOLD_TOP
  sub.u32 field, $2, FOLD_TOP;
  shl.b32 field, field, 23;
  add.u32 bit, $2, eval(149 - 127 - FOLD_TOP);
  shl.b32 bit, 1, bit;
  selp.b32 $1, field, bit, normal;
}|>)

// ---- the product ----------------------------------------------------------------------

// Usage: load_block(FIRST, ADDRESS, OFFSET)
// out: w(FIRST) .. w(FIRST + 3), the 16 rows of this warp of one block, from ADDRESS + OFFSET
macro(<|load_block|>, 3, <|
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {m4_list(<|J|>, $1, $1 + 3, <|w<||>J|>)}, [$2+eval($3)];|>)

// Usage: widen_block(A, W)
// out: a(A) .. a(A + 7), the A operands (f16) of a block for two wgmma, of w(W) .. w(W + 3);
// even ones of row g, odd ones of row g + 8
macro(<|widen_block|>, 2, <|
f16x2_of_e4m3x4(a<||>eval($1), a<||>eval($1 + 2), w<||>eval($2))
f16x2_of_e4m3x4(a<||>eval($1 + 1), a<||>eval($1 + 3), w<||>eval($2 + 1))
f16x2_of_e4m3x4(a<||>eval($1 + 4), a<||>eval($1 + 6), w<||>eval($2 + 2))
f16x2_of_e4m3x4(a<||>eval($1 + 5), a<||>eval($1 + 7), w<||>eval($2 + 3))|>)

// Usage: fold_rows(A, STAGE, STEP)
// a(A) .. a(A + 7) times the scales of their rows.  in: fields_a, fields_b, exponent fields << 2,
// a byte a block
macro(<|fold_rows|>, 3, <|
{
  .reg .b32 row_a, row_b;
  prmt.b32 row_a, fields_a$2, 0, m4_hex(0x0404 + $3 * 0x1010);  // bytes 0, field, 0, field
  prmt.b32 row_b, fields_b$2, 0, m4_hex(0x0404 + $3 * 0x1010);
m4_for(<|J|>, 0, 7, <|
  mul.rn.f16x2 a<||>eval($1 + J), a<||>eval($1 + J), m4_if(J % 2, row_b, row_a);
|>)dnl
}|>)

// Usage: wgmma_f16(D, A, FIRST, N8, LOW, ACCUMULATE)
// D0 .. = A(FIRST) .. A(FIRST + 3) * B (+ D): N8 groups of 8 columns, from descriptor low word
// LOW on
macro(<|wgmma_f16|>, 6, <|
{
  .reg .b64 b;
  mov.b64 b, {$5, DESCRIPTOR_K_MAJOR_128B};
  wgmma.mma_async.sync.aligned.m64n<||>eval(8 * ($4))k16.f32.f16.f16 {m4_list(<|J|>, 0, 4 * ($4) - 1, <|$1<||>J|>)}, {m4_list(<|J|>, $3, $3 + 3, <|$2<||>J|>)}, b, $6, 1, 1, 0;
}|>)

// Usage: fold_and_multiply(STAGE, STEP)
// Starts acc += A * B of block STEP of the stage, a group of its own; its weights are in w(4 STEP)
// .., its operands take one of BUFFERS places in a, which the block BUFFERS before has used.
// in: fields_a, fields_b; x_start
macro(<|fold_and_multiply|>, 2, <|
m4_fold_and_multiply($2, eval($1 * STAGE_BLOCKS + $2), eval(($1 * STAGE_BLOCKS + $2) % BUFFERS * 8), $1)|>)
define(<|m4_fold_and_multiply|>, <|dnl
m4_if($2 >= BUFFERS, <|dnl
wgmma.wait_group.sync.aligned eval(BUFFERS - 1);
|>)dnl
widen_block($3, eval(4 * $1))
fold_rows($3, $4, $1)
wgmma.fence.sync.aligned;
{
  .reg .b32 low;
  add.u32 low, x_start, eval($2 / 2 * X_ATOM / 16 + $2 % 2 * 64 / 16);
  wgmma_f16(acc, a, $3, GROUPS, low, m4_if($2 > 0, 1, 0))
  add.u32 low, low, 2;  // 32 bytes
  wgmma_f16(acc, a, eval($3 + 4), GROUPS, low, 1)
}
wgmma.commit_group.sync.aligned;|>)

// Usage: release_stage(EMPTY)
// This warp has read the stage whose mbarrier is at EMPTY.  in: lane0
macro(<|release_stage|>, 1, <|
bar.warp.sync 0xffffffff;
@lane0 mbarrier.arrive.shared::cta.b64 _, [$1];|>)

// Usage: refill_stages                          thread
// Requests n tile n_tile, a stage as soon as all warps of the team have released it, and its scales
// with the first stage.  That reads followed by an arrival are over when TMA writes is how these
// barriers are meant; the PTX ISA does not say it of the two proxies.  in: parity, of the n tile before; n_tile, rank
macro(<|refill_stages|>, 0, <|
{
  .reg .b64 map;
  .reg .b32 row_of_w, k;
  tensor_map_address(map, w_map)
  shl.b32 row_of_w, n_tile, m4_log2(TILE_N);  // n_tile * TILE_N
  shl.b32 k, rank, m4_log2(HEAD_DIM);  // rank * HEAD_DIM
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_wait(EMPTY(STAGE), parity)
  mbarrier_arrive_expect(LOADED(STAGE), W_STAGE)
  tma_load_2d_once(AT(S_W + STAGE * W_STAGE), map, k, row_of_w, LOADED(STAGE))
m4_if(STAGE == 0, <|dnl
  request_scales_of_tile
|>)dnl
m4_if(STAGE < STAGES - 1, <|dnl
  add.u32 k, k, STAGE_K;  // STAGE_K
|>)dnl
|>)dnl
}|>)

// Usage: request_scales_of_tile                 thread
// The scale words of n tile n_tile, of our head.  in: n_tile, rank
macro(<|request_scales_of_tile|>, 0, <|
{
  .reg .b64 map;
  .reg .b32 group, row, word;
  group_of_tile(group, row)
  tensor_map_address(map, ws_map)
  shl.b32 row, row, m4_log2(TILE_N);  // its place in the group * TILE_N
  shl.b32 word, rank, m4_log2(STAGES);  // rank * STAGES
  mbarrier_arrive_expect(AT(S_SCALES_LOADED), eval(STAGES * SCALE_STAGE))
  tma_load_3d(AT(S_W_SCALES), map, row, word, group, AT(S_SCALES_LOADED))
}|>)

// Usage: trigger_after_last_tile
// The late place of the trigger: the last n tile of the cluster is loaded.  in: tiles, lane0
macro(<|trigger_after_last_tile|>, 0, <|
{
  .reg .pred triggers;
  .reg .b32 trigger;
  ld.param.u32 trigger, [flags];
  and.b32 trigger, trigger, FLAG_TRIGGER;  // FLAG_TRIGGER
  setp.eq.and.u32 triggers, tiles, 1, lane0;
  setp.eq.and.u32 triggers, trigger, TRIGGER_LATE, triggers;  // TRIGGER_LATE
  pdl_trigger_if(triggers)
}|>)

// Usage: add_scaled_evenly(SUM, VALUE, ROW, TOKEN)
// SUM += VALUE * 2^(ROW - 127) * 2^(TOKEN - 127), as two factors that share the exponent evenly,
// so that neither step leaves f32 unless the result does.  TOKEN is at least 78
macro(<|add_scaled_evenly|>, 4, <|
{
  .reg .b32 exponent, factor;
  .reg .f32 value;
  add.u32 exponent, $3, $4;
  shr.u32 factor, exponent, 1;
  sub.u32 exponent, exponent, factor;
  shl.b32 factor, factor, 23;
  shl.b32 exponent, exponent, 23;
  mul.rn.f32 value, $2, factor;
  fma.rn.f32 $1, value, exponent, $1;
}|>)

// ---- split-K --------------------------------------------------------------------------

// Usage: expect_classes                          thread
// What the inbox will hold: the classes of this rank, from each head.
macro(<|expect_classes|>, 0, <|
m4_if(CLASSES % HEADS == 0, <|dnl
mbarrier_arrive_expect(AT(S_REDUCED), eval(CLASSES / HEADS * CLASS_BYTES))
|>, <|dnl
{
  .reg .pred owns_one_more;
  .reg .b32 bytes;
  setp.lt.u32 owns_one_more, rank, eval(CLASSES % HEADS);  // CLASSES % HEADS
  selp.b32 bytes, eval(CLASS_SLOTS * CLASS_BYTES), eval((CLASS_SLOTS - 1) * CLASS_BYTES), owns_one_more;
  mbarrier_arrive_expect(AT(S_REDUCED), bytes)
}
|>)dnl|>)

// Usage: send_class(ODD)
// Both rows of class 2q + ODD to its owner.  Words past the groups repeat the last: a vector has a power of two.
// in: acc, in_four, inbox = our inbox of this sender at row g
macro(<|send_class|>, 1, <|
{
  .reg .pred sends;
  .reg .b32 class, owner, slot, to, to_reduced;
  mad.lo.u32 class, in_four, 2, $1;
m4_if(CLASSES < 8, <|dnl
  setp.lt.u32 sends, class, CLASSES;  // CLASSES
  only_begin(sent, sends)
|>)dnl
m4_if(HEADS == 8, <|dnl
  mov.u32 owner, class;
  mov.u32 to, inbox;
|>, HEADS == 1, <|dnl
  mad.lo.u32 to, class, INBOX_CLASS, inbox;  // INBOX_CLASS
|>, <|dnl
  rem.u32 owner, class, HEADS;
  div.u32 slot, class, HEADS;
  mad.lo.u32 to, slot, INBOX_CLASS, inbox;  // INBOX_CLASS
|>)dnl
m4_if(HEADS > 1, <|dnl
  peer_address(to, to, owner)
  add.u32 to_reduced, team, S_REDUCED;  // S_REDUCED
  peer_address(to_reduced, to_reduced, owner)
|>)dnl
m4_for(<|HALF|>, 0, 1, <|
m4_if(HEADS > 1, <|dnl
  send_words(to, eval(S_INBOX + HALF * 8 * VECTOR * 4), to_reduced, m4_list(<|J|>, 0, VECTOR - 1, <|ACC(m4_min(J, GROUPS - 1), 2 * HALF + $1)|>))
|>, <|dnl
  st.shared<||>m4_if(VECTOR > 1, <|.v|>VECTOR).f32 [to+eval(S_INBOX + HALF * 8 * VECTOR * 4)], m4_if(VECTOR > 1, <|{m4_list(<|J|>, 0, VECTOR - 1, <|ACC(m4_min(J, GROUPS - 1), 2 * HALF + $1)|>)}|>, <|ACC(0, 2 * HALF + $1)|>);
|>)dnl
|>)dnl
m4_if(CLASSES < 8, <|dnl
  only_end_apart
|>)dnl
}|>)

// ---- what an owner does with the sums ----------------------------------------------------

// Usage: sum_and_write
// The outputs of our tokens in n tile n_tile, from the inbox of a team, once it is full.  A thread
// has one weight row, and of a vector all words or half of them.
// in: team, parity, tid, lane, warp, rank, first_row
macro(<|sum_and_write|>, 0, <|
{
  .reg .pred idle, lane0;
  .reg .b32 n_row, inbox_row, first_out, quarter, n, end, column;
  .reg .b64 q_to, qs_tile;
  .reg .f32 s<eval(CLASS_SLOTS * WORDS)>;
m4_if(TEAMS == 1 && OWNERS < HEADS, <|dnl
  // A rank that owns no token: nobody sends to it.
  setp.ge.u32 idle, rank, OWNERS;  // OWNERS
  @idle bra.uni all_written;
|>)dnl
  setp.eq.u32 lane0, lane, 0;
  and.b32 n_row, tid, eval(TILE_N - 1);
  mad.lo.u32 inbox_row, n_row, eval(VECTOR * 4), team;
  mov.u32 first_out, first_row;
m4_if(HALVES == 2, <|dnl
  {
    .reg .b32 half;
    shr.u32 half, tid, m4_log2(TILE_N);
    mad.lo.u32 inbox_row, half, eval(WORDS * 4), inbox_row;
    mad.lo.u32 first_out, half, eval(WORDS * 8), first_out;  // a word is 8 tokens on
  }
|>)dnl
m4_if(TILE * TILES < QS_ROWS || !FULL, <|dnl
  {
    .reg .pred mine;
    .reg .b32 reader;
    and.b32 reader, warp, eval(READER_WARPS - 1);
    setp.eq.u32 mine, reader, eval(READER_WARPS - 1);
    setp.eq.and.u32 mine, rank, 0, mine;
    setp.eq.and.u32 mine, first_row, 0, mine;
    zero_missing_scales(mine)
  }
|>)dnl
  m4_if(HEADS > 1, <|mbarrier_wait_cluster|>, <|mbarrier_wait|>)(AT(S_REDUCED), parity)
m4_if(TEAMS == 1 && HALVES == 1, <|dnl
  {
    .reg .pred upper;  // nothing is left for the second half of the team
    setp.ge.u32 upper, tid, TILE_N;  // TILE_N
    @upper bra.uni summed;
  }
|>)dnl
m4_for(<|SLOT|>, 0, CLASS_SLOTS - 1, <|
m4_for(<|PEER|>, 0, HEADS - 1, <|
  {
    .reg .f32 w<WORDS>;
    ld.shared<||>m4_if(WORDS > 1, <|.v|>WORDS).f32 m4_if(WORDS > 1, <|{m4_list(<|J|>, 0, WORDS - 1, <|w<||>J|>)}|>, <|w0|>), [inbox_row+eval(S_INBOX + PEER * INBOX_SENDER + SLOT * INBOX_CLASS)];
m4_for(<|WORD|>, 0, WORDS - 1, <|
    add.rn.f32 s<||>eval(SLOT * WORDS + WORD), m4_if(PEER, <|s<||>eval(SLOT * WORDS + WORD)|>, F32_ZERO), w<||>WORD;
|>)dnl
  }
|>)dnl
|>)dnl
summed:
  release_stage(AT(S_READ))
m4_if(TEAMS == 1 && HALVES == 1, <|dnl
  setp.ge.u32 idle, tid, TILE_N;  // TILE_N
  @idle bra.uni all_written;
|>)dnl
  shr.u32 quarter, n_row, 5;
  ld.param.u32 n, [n_total];
  ld.param.u64 q_to, [q];
  cvta.to.global.u64 q_to, q_to;
  mad.lo.u32 column, n_tile, TILE_N, n_row;
  cvt.u64.u32 qs_tile, column;
  add.u64 q_to, q_to, qs_tile;
  ld.param.u64 qs_tile, [qs];
  cvta.to.global.u64 qs_tile, qs_tile;
  mad.wide.u32 qs_tile, n_tile, QS_TILE, qs_tile;  // QS_TILE
  add.u32 end, first_row, TOKENS;  // past the last token of the tile
  ld.param.u32 column, [tokens];
  min.u32 end, end, column;
m4_for(<|SLOT|>, 0, CLASS_SLOTS - 1, <|
  {
    .reg .b32 class, out_row;
    add.u32 class, rank, eval(SLOT * HEADS);
    add.u32 out_row, first_out, class;
m4_if((SLOT + 1) * HEADS > CLASSES && HEADS > 1 && SLOT > 0, <|dnl
    .reg .pred exists;
    setp.lt.u32 exists, class, CLASSES;  // CLASSES
    warps_begin(slot_written, exists)
|>)dnl
m4_for(<|WORD|>, 0, WORDS - 1, <|
    store_output(s<||>eval(SLOT * WORDS + WORD), eval(8 * WORD), lane0)
|>)dnl
m4_if((SLOT + 1) * HEADS > CLASSES && HEADS > 1 && SLOT > 0, <|dnl
    warps_end
|>)dnl
  }
|>)dnl
all_written:
}|>)

divert(0)dnl
