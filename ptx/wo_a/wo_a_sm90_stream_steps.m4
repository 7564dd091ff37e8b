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
      and.b32 first_row, number, eval(GRID_Y - 1);
      shr.u32 n_tile, number, m4_log2(GRID_Y);
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
// Steps to the next n tile.  out: n_tile, tiles, parity, later, group; same_group (predicate)
macro(<|following_tile|>, 0, <|
sub.u32 tiles, tiles, 1;
add.u32 n_tile, n_tile, 1;
xor.b32 parity, parity, 1;
setp.eq.u32 later, lane, lane;
group_of_tile(group, tile_in_group)
setp.ne.u32 same_group, tile_in_group, 0;|>)

// ---- scales of the weights -------------------------------------------------------------

// Usage: row_of_lane(ROW)
// out: ROW (u32), the first weight row that lane 4g + q has in a product: row g of its warp's
macro(<|row_of_lane|>, 1, <|
shr.u32 $1, lane, 2;
mad.lo.u32 $1, warp, WARP_ROWS, $1;|>)

// Usage: load_row_scales(WORDS, ADDRESS, OFFSET)
// out: WORDS0 .. WORDS3, the scale words of the row at ADDRESS + OFFSET
macro(<|load_row_scales|>, 3, <|
m4_for(<|STAGE|>, 0, STAGES - 1, <|
ld.shared.b32 $1<||>STAGE, [$2+eval($3 + STAGE * SCALE_STAGE)];
|>)dnl|>)

// Usage: read_row_scales
// out: scales_a, scales_b, of the rows of this lane, once they are in.  in: parity
macro(<|read_row_scales|>, 0, <|
{
  .reg .b32 at;
  row_of_lane(at)
  mad.lo.u32 at, at, 4, smem;
  mbarrier_wait(AT(S_SCALES_LOADED), parity)
  load_row_scales(scales_a, at, S_W_SCALES)
  load_row_scales(scales_b, at, S_W_SCALES + 8 * 4)  // 8 rows on, a word each
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

// Usage: fold_rows(A, STEP)
// a(A) .. a(A + 7) times the scales of their rows.  in: fields_a, fields_b, exponent fields << 2,
// a byte a block
macro(<|fold_rows|>, 2, <|
{
  .reg .b32 row_a, row_b;
  prmt.b32 row_a, fields_a, 0, m4_hex(0x0404 + $2 * 0x1010);  // bytes 0, field, 0, field
  prmt.b32 row_b, fields_b, 0, m4_hex(0x0404 + $2 * 0x1010);
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
m4_fold_and_multiply($2, eval($1 * STAGE_BLOCKS + $2), eval(($1 * STAGE_BLOCKS + $2) % BUFFERS * 8))|>)
define(<|m4_fold_and_multiply|>, <|dnl
m4_if($2 >= BUFFERS, <|dnl
wgmma.wait_group.sync.aligned eval(BUFFERS - 1);
|>)dnl
widen_block($3, eval(4 * $1))
fold_rows($3, $1)
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

// Usage: refill_stages(FIRST, LAST)
// Requests these stages of the next n tile, with the first stage its scales too, when all
// warps have released them.  in: more, leader, parity, n_tile, rank
macro(<|refill_stages|>, 2, <|
{
warps_begin(refilled, more)
only_begin(requested, leader)
{
  .reg .b64 map;
  .reg .b32 row_of_w, k, next;
  tensor_map_address(map, w_map)
  shl.b32 row_of_w, n_tile, m4_log2(TILE_N);  // n_tile * TILE_N
  add.u32 row_of_w, row_of_w, TILE_N;  // TILE_N
  shl.b32 k, rank, m4_log2(HEAD_DIM);  // rank * HEAD_DIM
  add.u32 k, k, eval(($1) * STAGE_K);
m4_for(<|STAGE|>, $1, $2, <|
  mbarrier_wait(EMPTY(STAGE), parity)
  mbarrier_arrive_expect(LOADED(STAGE), W_STAGE)
  tma_load_2d(AT(S_W + STAGE * W_STAGE), map, k, row_of_w, LOADED(STAGE))
m4_if(STAGE == 0, <|dnl
  {
    // Its place in the group, anew: registers are scarce.
    .reg .b32 group, tile_in_group, per_group;
    ld.param.u32 per_group, [tiles_per_group];
    add.u32 next, n_tile, 1;
    div.u32 group, next, per_group;
    mul.lo.u32 tile_in_group, group, per_group;
    sub.u32 tile_in_group, next, tile_in_group;  // next % per_group
    request_scales_of(tile_in_group)
  }
|>)dnl
m4_if(STAGE < $2, <|dnl
  add.u32 k, k, STAGE_K;  // STAGE_K
|>)dnl
|>)dnl
}
only_end_apart
warps_end
}|>)

// Usage: request_scales_of(TILE)               thread
// The scale words of n tile TILE (u32) of the group, of our head.  in: group, rank
macro(<|request_scales_of|>, 1, <|
{
  .reg .b64 map;
  .reg .b32 row, word;
  tensor_map_address(map, ws_map)
  shl.b32 row, $1, m4_log2(TILE_N);  // TILE * TILE_N
  shl.b32 word, rank, m4_log2(STAGES);  // rank * STAGES
  mbarrier_arrive_expect(AT(S_SCALES_LOADED), eval(STAGES * SCALE_STAGE))
  tma_load_3d(AT(S_W_SCALES), map, row, word, group, AT(S_SCALES_LOADED))
}|>)

// Usage: trigger_after_last_tile
// The late place of the trigger: nothing is left to load.  in: more, leader
macro(<|trigger_after_last_tile|>, 0, <|
{
  .reg .pred triggers;
  .reg .b32 trigger;
  ld.param.u32 trigger, [flags];
  and.b32 trigger, trigger, FLAG_TRIGGER;  // FLAG_TRIGGER
  not.pred triggers, more;
  and.pred triggers, triggers, leader;
  setp.eq.and.u32 triggers, trigger, 0, triggers;
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
// Both rows of class 2q + ODD to its owner.  Words past the groups repeat the last.
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
  add.u32 to_reduced, smem, S_REDUCED;  // S_REDUCED
  peer_address(to_reduced, to_reduced, owner)
|>)dnl
m4_for(<|PART|>, 0, VECTORS - 1, <|
m4_for(<|HALF|>, 0, 1, <|
m4_if(HEADS > 1, <|dnl
  send_words(to, eval(S_INBOX + PART * INBOX_VECTOR + HALF * 8 * VECTOR * 4), to_reduced, m4_list(<|J|>, PART * VECTOR, PART * VECTOR + VECTOR - 1, <|ACC(m4_min(J, GROUPS - 1), 2 * HALF + $1)|>))
|>, <|dnl
  st.shared<||>m4_if(VECTOR > 1, <|.v|>VECTOR).f32 [to+eval(S_INBOX + PART * INBOX_VECTOR + HALF * 8 * VECTOR * 4)], m4_if(VECTOR > 1, <|{m4_list(<|J|>, PART * VECTOR, PART * VECTOR + VECTOR - 1, <|ACC(m4_min(J, GROUPS - 1), 2 * HALF + $1)|>)}|>, <|ACC(0, 2 * HALF + $1)|>);
|>)dnl
|>)dnl
|>)dnl
m4_if(CLASSES < 8, <|dnl
  only_end_apart
|>)dnl
}|>)

divert(0)dnl
