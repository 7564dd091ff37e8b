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

// Usage: take_turn
// Waits until the other team, in the n tile before ours, has used up stage TURN_STAGE, so that one
// multiplies while the other sends: left alone they do both at the same time.  A parity tells the
// phase: the other team cannot pass its next turn before our warps have all used up that stage.
macro(<|take_turn|>, 0, <|
{
  .reg .pred second, follows;
  .reg .b32 other, phase;
  setp.ne.u32 second, team, smem;
  add.u32 other, smem, TEAM_BYTES;  // TEAM_BYTES
  @second mov.u32 other, smem;
  xor.b32 phase, parity, 1;
  @second mov.u32 phase, parity;
  or.pred follows, second, sent_before;
  @!follows bra.uni in_turn;
  mbarrier_wait(other+eval(S_EMPTY + 8 * TURN_STAGE), phase)
in_turn:
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
// sent_before; lap, lapped
macro(<|following_tile|>, 0, <|
sub.s32 tiles, tiles, TEAMS;  // TEAMS
add.u32 n_tile, n_tile, TEAMS;  // TEAMS
xor.b32 parity, parity, 1;
following_lap
setp.eq.u32 sent_before, lane, lane;|>)

// Usage: following_lap
// After a step to the next n tile: whether the first inbox has its turn again.
// in: parity.  in/out: lap, lapped
macro(<|following_lap|>, 0, <|
m4_if(INBOXES == 2, <|dnl
{
  .reg .pred first_again;
  setp.eq.u32 first_again, parity, 0;
  @first_again xor.b32 lap, lap, 1;
  or.pred lapped, lapped, first_again;
}
|>)dnl|>)

// Usage: inbox_barriers(BARS)
// out: BARS (u32), to which S_REDUCED and S_FREE are to be added for the inbox of this n
// tile.  in: team, parity
macro(<|inbox_barriers|>, 1, <|
m4_if(INBOXES == 2, <|dnl
mad.lo.u32 $1, parity, 8, team;
|>, <|dnl
mov.u32 $1, team;
|>)dnl|>)

// Usage: other_team_follows
// Steps to the n tile after this one, which is the other team's, for a warp that serves both.
// in/out: n_tile, tiles, team, parity, lap
macro(<|other_team_follows|>, 0, <|
{
  .reg .pred first;
  .reg .b32 end;
  sub.u32 tiles, tiles, 1;
  add.u32 n_tile, n_tile, 1;
  add.u32 team, team, TEAM_BYTES;  // TEAM_BYTES
  add.u32 end, smem, eval(TEAMS * TEAM_BYTES);
  setp.eq.u32 first, team, end;  // the first team's is next
  @first mov.u32 team, smem;
m4_if(INBOXES == 2, <|dnl
  .reg .pred wraps;
  @first xor.b32 parity, parity, 1;
  setp.eq.and.u32 wraps, parity, 0, first;
  @wraps xor.b32 lap, lap, 1;
|>, <|dnl
  @first xor.b32 parity, parity, 1;
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
// out: scales_a, scales_b, of the rows of this lane.  in: they were inspected
macro(<|load_row_scales|>, 0, <|
{
  .reg .b32 row, at;
  row_of_lane(row)
  mad.lo.u32 at, row, 4, team;
  load_row_words(scales_a, at, S_W_SCALES)
  load_row_words(scales_b, at, S_W_SCALES + 8 * 4)  // 8 rows on, a word each
}|>)

// Usage: rest_of_weights(IDLE)                    warp
// The weights of the first n tile that were to come behind x and rope, unless IDLE (predicate): there
// is no n tile.  in: weights_wait, leader; n_tile, rank
macro(<|rest_of_weights|>, 1, <|
warps_begin(rest_requested, weights_wait)
{
  .reg .pred requests;
  bar.sync BARRIER_ROPE, ROPE_THREADS;  // rope is under way
  not.pred requests, $1;
  and.pred requests, requests, leader;
  only_begin(requested, requests)
  request_stages(FIRST_STAGES, eval(STAGES - 1))
  only_end_apart
}
warps_end|>)

// Usage: inspect_scales                         warp
// Works out from the scales of an n tile, once they are in, what its rows are to be multiplied by.
// in: parity, leader
macro(<|inspect_scales|>, 0, <|
{
  .reg .pred extreme;
  .reg .b32 at, apply<eval(TILE_N / 32)>;
  setp.ne.u32 extreme, lane, lane;
  mad.lo.u32 at, lane, 4, team;
  mbarrier_wait(AT(S_SCALES_LOADED), parity)
m4_for(<|PART|>, 0, TILE_N / 32 - 1, <|
  {
    .reg .b32 words<STAGES>, top, fold;
    load_row_words(words, at, S_W_SCALES + PART * 32 * 4)
    inspect_row(top, fold, extreme, words)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
    add.u32 words<||>STAGE, words<||>STAGE, fold;
    shl.b32 words<||>STAGE, words<||>STAGE, 2;  // the place of f16's exponent in its upper byte
    st.shared.b32 [at+eval(S_W_FIELDS + STAGE * SCALE_STAGE + PART * 32 * 4)], words<||>STAGE;  // S_W_FIELDS
|>)dnl
    f32_of_folded_top(apply<||>PART, top)
    st.shared.b32 [at+eval(S_W_TOPS + PART * 32 * 4)], apply<||>PART;  // S_W_TOPS
  }
|>)dnl
  vote.sync.any.pred extreme, extreme, 0xffffffff;
  warps_begin(all_fold, extreme)
m4_for(<|PART|>, 0, TILE_N / 32 - 1, <|
  or.b32 apply<||>PART, apply<||>PART, F32_SIGN;  // F32_SIGN: the long way
  st.shared.b32 [at+eval(S_W_TOPS + PART * 32 * 4)], apply<||>PART;  // S_W_TOPS
|>)dnl
  warps_end
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
// out: SCALE (b32) = the f32 2^(TOP - 127 - FOLD_TOP), below 2^-126 a denormal; of a NaN's TOP, 255, no use
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

// Usage: load_weights(STEP)
// Requests block STEP of a head, in w from 4 (STEP % LOAD_BLOCKS) on.  in: w_from, parity
macro(<|load_weights|>, 1, <|
m4_if(($1) % STAGE_BLOCKS == 0, <|dnl
mbarrier_wait(LOADED(($1) / STAGE_BLOCKS), parity)
|>)dnl
{
  .reg .b32 at;
  xor.b32 at, w_from, eval(($1) % STAGE_BLOCKS * BLOCK);
  load_block(eval(4 * (($1) % LOAD_BLOCKS)), at, S_W + ($1) / STAGE_BLOCKS * W_STAGE)
}|>)

// Usage: fold_and_multiply(STEP)
// Starts acc += A * B of block STEP, a group of its own; its operands take one of BUFFERS places
// in a, which the block BUFFERS before has used, and its weights leave w to those of a later one.
// in: w, fields_a, fields_b; x_start
macro(<|fold_and_multiply|>, 1, <|
m4_fold_and_multiply($1, eval(($1) % BUFFERS * 8), eval(($1) / STAGE_BLOCKS))|>)
define(<|m4_fold_and_multiply|>, <|dnl
m4_if($1 >= BUFFERS, <|dnl
wgmma.wait_group.sync.aligned eval(BUFFERS - 1);
|>)dnl
widen_block($2, eval(4 * ($1 % LOAD_BLOCKS)))
m4_if($1 % STAGE_BLOCKS == STAGE_BLOCKS - 1, <|dnl
release_stage(EMPTY($3))
|>)dnl
m4_if($1 + LOAD_BLOCKS < BLOCKS, <|dnl
load_weights(eval($1 + LOAD_BLOCKS))
|>)dnl
fold_rows($2, $3, eval($1 % STAGE_BLOCKS))
wgmma.fence.sync.aligned;
{
  .reg .b32 low;
  add.u32 low, x_start, eval($1 / 2 * X_ATOM / 16 + $1 % 2 * 64 / 16);
  wgmma_f16(acc, a, $2, OCTETS, low, m4_if($1 > 0, 1, 0))
  add.u32 low, low, 2;  // 32 bytes
  wgmma_f16(acc, a, eval($2 + 4), OCTETS, low, 1)
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

// Usage: add_block(FIRST, COUNT)
// COUNT octets from octet FIRST on: acc += (A * B) * scale of the row * scale of the token, of one
// block.  in: a0 .. a7; x_low; row_a, row_b, scales of the rows; x_scales
macro(<|add_block|>, 2, <|
{
  .reg .f32 d<eval(4 * ($2))>;
  .reg .b32 low;
  add.u32 low, x_low, eval(($1) * X_OCTET / 16);
  wgmma.fence.sync.aligned;
  wgmma_f16(d, a, 0, $2, low, 0)
  add.u32 low, low, 2;  // 32 bytes
  wgmma_f16(d, a, 4, $2, low, 1)
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
m4_for(<|OCTET|>, 0, $2 - 1, <|
m4_for(<|ODD|>, 0, 1, <|
  {
    .reg .b32 token;
    ld.shared.u8 token, [x_scales+eval(S_X_SCALES + (8 * ($1 + OCTET) + ODD) * BLOCKS)];  // S_X_SCALES
    add_scaled_evenly(ACC($1 + OCTET, ODD), d<||>eval(4 * OCTET + ODD), row_a, token)
    add_scaled_evenly(ACC($1 + OCTET, 2 + ODD), d<||>eval(4 * OCTET + 2 + ODD), row_b, token)
  }
|>)dnl
|>)dnl
}|>)

// ---- split-K --------------------------------------------------------------------------

// Usage: expect_classes(REDUCED)                 thread
// What the inbox of the mbarrier at REDUCED will hold: the classes of this rank, from each head.
macro(<|expect_classes|>, 1, <|
m4_if(CLASSES % HEADS == 0, <|dnl
mbarrier_arrive_expect($1, eval(CLASSES / HEADS * CLASS_BYTES))
|>, <|dnl
{
  .reg .pred owns_one_more;
  .reg .b32 bytes;
  setp.lt.u32 owns_one_more, rank, eval(CLASSES % HEADS);  // CLASSES % HEADS
  selp.b32 bytes, eval(CLASS_SLOTS * CLASS_BYTES), eval((CLASS_SLOTS - 1) * CLASS_BYTES), owns_one_more;
  mbarrier_arrive_expect($1, bytes)
}
|>)dnl|>)

// Usage: send_class(ODD)
// Both rows of class 2q + ODD to its owner.  Words past the octets repeat the last: a vector has a
// power of two.
// in: acc, in_four; inbox, bars: of this sender at row g, of the inbox's mbarriers
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
  add.u32 to_reduced, bars, S_REDUCED;  // S_REDUCED
  peer_address(to_reduced, to_reduced, owner)
|>)dnl
m4_for(<|PART|>, 0, VECTORS - 1, <|
m4_for(<|HALF|>, 0, 1, <|
m4_if(HEADS > 1, <|dnl
  send_words(to, eval(S_INBOX + PART * INBOX_VECTOR + HALF * 8 * VECTOR * 4), to_reduced, m4_list(<|J|>, 0, VECTOR - 1, <|ACC(m4_min(PART * VECTOR + J, OCTETS - 1), 2 * HALF + $1)|>))
|>, <|dnl
  st.shared<||>m4_if(VECTOR > 1, <|.v|>VECTOR).f32 [to+eval(S_INBOX + PART * INBOX_VECTOR + HALF * 8 * VECTOR * 4)], m4_if(VECTOR > 1, <|{m4_list(<|J|>, 0, VECTOR - 1, <|ACC(m4_min(PART * VECTOR + J, OCTETS - 1), 2 * HALF + $1)|>)}|>, <|ACC(0, 2 * HALF + $1)|>);
|>)dnl
|>)dnl
|>)dnl
m4_if(CLASSES < 8, <|dnl
  only_end_apart
|>)dnl
}|>)

// ---- what an owner does with the sums ----------------------------------------------------

// Usage: store_outputs(FIRST)
// As store_output for each of SLOT_WORDS sums, s(FIRST) on, the words of a thread's vectors: what
// belongs to all 32 outputs of a warp is worked out by one lane for each sum.
// in: q_to, qs_tile, out_row, end, n, quarter, lane
macro(<|store_outputs|>, 1, <|
{
  .reg .pred is, has, live, not_a_number;
  .reg .b32 y<eval(SLOT_WORDS)>, key, largest, scale, inverse, factor, row;
  .reg .b64 to;
m4_for(<|K|>, 0, SLOT_WORDS - 1, <|
  round_to_bf16(y<||>K, s<||>eval($1 + K))
  setp.nan.f32 not_a_number, y<||>K, y<||>K;
  and.b32 key, y<||>K, 0x7fffffff;
  selp.b32 key, 0xffffffff, key, not_a_number;  // -1: a NaN loses
  redux.sync.max.s32 key, key, 0xffffffff;  // of floats >= 0, as integers
m4_if(K == 0, <|dnl
  mov.b32 largest, key;
|>, <|dnl
  setp.eq.u32 is, lane, K;
  @is mov.b32 largest, key;
|>)dnl
|>)dnl
  ue8m0_by_integers(scale, largest)
  setp.eq.u32 is, scale, 0;
  sub.u32 inverse, 254, scale;
  shl.b32 inverse, inverse, 23;
  selp.b32 inverse, 0, inverse, is;
m4_for(<|K|>, 0, SLOT_WORDS - 1, <|
  {
    .reg .b16 code;
    shfl.sync.idx.b32 factor, inverse, K, 0x1f, 0xffffffff;
    mul.rn.f32 y<||>K, y<||>K, factor;
    e4m3(code, y<||>K)
    add.u32 row, out_row, eval(8 * (K / WORDS * VECTOR + K % WORDS));
    setp.lt.u32 live, row, end;
    mad.wide.u32 to, row, n, q_to;
    @live st.global.b8 [to], code;
  }
|>)dnl
  // Lane k has the scale of sum k.
  {
    .reg .b32 offset;
    and.b32 offset, lane, eval(WORDS - 1);
    shr.u32 row, lane, m4_log2(WORDS);
    mad.lo.u32 row, row, VECTOR, offset;  // VECTOR
    mad.lo.u32 row, row, 8, out_row;  // a word is 8 tokens on
    setp.lt.u32 has, lane, eval(SLOT_WORDS);
    setp.lt.and.u32 live, row, end, has;
    scale_offset(offset, row)
    cvt.u64.u32 to, offset;
    add.u64 to, to, qs_tile;
    @live st.global.b8 [to], scale;
  }
}|>)

// Usage: free_inbox                             warp
// This warp has read the inbox: its senders may fill it again, if they have an n tile for it.  The first
// warp expects their bytes before it says so, and they wait for all.  in: bars; tiles, from this one on; lane, warp, rank
macro(<|free_inbox|>, 0, <|
{
  .reg .pred again, expects;
  .reg .b32 to;
  setp.gt.s32 again, tiles, eval(INBOXES * TEAMS);
  warps_begin(freed, again)
  and.b32 to, warp, eval(READER_WARPS - 1);
  setp.eq.u32 expects, to, 0;  // the first of the warps, one lane
  setp.eq.and.u32 expects, lane, 0, expects;
  only_begin(expected, expects)
  expect_classes(bars+S_REDUCED)
  only_end  // all lanes have read, too
  setp.lt.u32 expects, lane, HEADS;  // HEADS
  only_begin(told, expects)
  add.u32 to, bars, S_FREE;  // S_FREE
  peer_address(to, to, lane)
  mbarrier_arrive_peer(to)
  only_end_apart
  warps_end
}|>)

// Usage: sum_and_write
// The outputs of our tokens in n tile n_tile, from the inbox of a team, once it is full.  A thread
// has one weight row, and of a vector all words or half of them.
// in: team, n_tile, parity, lap, tid, lane, warp, rank, first_row
macro(<|sum_and_write|>, 0, <|
{
  .reg .pred idle, lane0;
  .reg .b32 bars, n_row, inbox_row, first_out, scale_tile, quarter, n, end, column;
  .reg .b64 q_to, qs_tile;
  .reg .f32 s<eval(CLASS_SLOTS * SLOT_WORDS)>;
m4_if(TEAMS == 1 && OWNERS < HEADS, <|dnl
  // A rank that owns no token: nobody sends to it.
  setp.ge.u32 idle, rank, OWNERS;  // OWNERS
  @idle bra.uni all_written;
|>)dnl
  setp.eq.u32 lane0, lane, 0;
  and.b32 n_row, tid, eval(TILE_N - 1);
  inbox_barriers(bars)
  mad.lo.u32 inbox_row, n_row, eval(VECTOR * 4), team;
m4_if(INBOXES == 2, <|dnl
  mad.lo.u32 inbox_row, parity, TEAM_INBOX, inbox_row;  // TEAM_INBOX
|>)dnl
  mov.u32 first_out, first_row;
m4_if(HALVES == 2, <|dnl
  {
    .reg .b32 half;
    shr.u32 half, tid, m4_log2(TILE_N);
    and.b32 half, half, 1;
    mad.lo.u32 inbox_row, half, eval(WORDS * 4), inbox_row;
    mad.lo.u32 first_out, half, eval(WORDS * 8), first_out;  // a word is 8 tokens on
  }
|>)dnl
m4_if(TILE_N < QS_COLUMNS, <|dnl
  shr.u32 scale_tile, n_tile, m4_log2(QS_COLUMNS / TILE_N);
|>, <|dnl
  mov.u32 scale_tile, n_tile;
|>)dnl
m4_if(TILE * TILES < QS_ROWS || !FULL, <|dnl
  {
    .reg .pred mine;
    .reg .b32 reader;
    and.b32 reader, warp, eval(READER_WARPS - 1);
    setp.eq.u32 mine, reader, eval(READER_WARPS - 1);
    setp.eq.and.u32 mine, rank, 0, mine;
    setp.eq.and.u32 mine, first_row, 0, mine;
m4_if(TILE_N < QS_COLUMNS, <|dnl
    and.b32 reader, n_tile, eval(QS_COLUMNS / TILE_N - 1);
    setp.eq.and.u32 mine, reader, 0, mine;  // by the first n tile of the scale tile
|>)dnl
    zero_missing_scales(mine, scale_tile)
  }
|>)dnl
  m4_if(HEADS > 1, <|mbarrier_wait_cluster|>, <|mbarrier_wait|>)(bars+S_REDUCED, LAP)
m4_if(TEAMS == 1 && HALVES == 1, <|dnl
  {
    .reg .pred upper;  // nothing is left for the second half of the team
    setp.ge.u32 upper, tid, TILE_N;  // TILE_N
    @upper bra.uni all_written;
  }
|>)dnl
m4_for(<|SLOT|>, 0, CLASS_SLOTS - 1, <|
m4_for(<|PART|>, 0, VECTORS - 1, <|
m4_for(<|PEER|>, 0, HEADS - 1, <|
  {
    .reg .f32 w<WORDS>;
    ld.shared<||>m4_if(WORDS > 1, <|.v|>WORDS).f32 m4_if(WORDS > 1, <|{m4_list(<|J|>, 0, WORDS - 1, <|w<||>J|>)}|>, <|w0|>), [inbox_row+eval(S_INBOX + PEER * INBOX_SENDER + SLOT * INBOX_CLASS + PART * INBOX_VECTOR)];
m4_for(<|WORD|>, 0, WORDS - 1, <|
    add.rn.f32 s<||>eval((SLOT * VECTORS + PART) * WORDS + WORD), m4_if(PEER, <|s<||>eval((SLOT * VECTORS + PART) * WORDS + WORD)|>, F32_ZERO), w<||>WORD;
|>)dnl
  }
|>)dnl
|>)dnl
|>)dnl
  m4_if(HEADS > 1, <|free_inbox|>, <|mbarrier_arrive(bars+S_FREE)|>)
  shr.u32 quarter, n_row, 5;
m4_if(TILE_N < QS_COLUMNS, <|dnl
  {
    .reg .b32 part;
    and.b32 part, n_tile, eval(QS_COLUMNS / TILE_N - 1);
    mad.lo.u32 quarter, part, eval(TILE_N / 32), quarter;
  }
|>)dnl
  ld.param.u32 n, [n_total];
  ld.param.u64 q_to, [q];
  cvta.to.global.u64 q_to, q_to;
  mad.lo.u32 column, n_tile, TILE_N, n_row;
  cvt.u64.u32 qs_tile, column;
  add.u64 q_to, q_to, qs_tile;
  ld.param.u64 qs_tile, [qs];
  cvta.to.global.u64 qs_tile, qs_tile;
  mad.wide.u32 qs_tile, scale_tile, QS_TILE, qs_tile;  // QS_TILE
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
m4_if(SLOT_WORDS > 2, <|dnl
    store_outputs(eval(SLOT * SLOT_WORDS))
|>, <|dnl
m4_for(<|WORD|>, 0, WORDS - 1, <|
    store_output(s<||>eval(SLOT * WORDS + WORD), eval(8 * WORD), lane0)
|>)dnl
|>)dnl
m4_if((SLOT + 1) * HEADS > CLASSES && HEADS > 1 && SLOT > 0, <|dnl
    warps_end
|>)dnl
  }
|>)dnl
all_written:
}|>)

divert(0)dnl
