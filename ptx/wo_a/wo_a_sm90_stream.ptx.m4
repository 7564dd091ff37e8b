include(`prelude.m4')dnl
include(<|mbarrier.m4|>)dnl
include(<|tma.m4|>)dnl
include(<|pdl.m4|>)dnl
include(<|cluster.m4|>)dnl
include(<|quantize.m4|>)dnl
define(<|WEIGHT_ROWS|>, m4_if(BW_TILES > 1, 64, 128))dnl  of more than 32 tokens the sums of 64 rows fill registers
include(<|wo_a_common.m4|>)dnl
include(<|wo_a_sm90_common.m4|>)dnl
include(<|wo_a_sm90_stream_sizes.m4|>)dnl
include(<|wo_a_sm90_quantize.m4|>)dnl
include(<|wo_a_sm90_stream_steps.m4|>)dnl
// SPDX-License-Identifier: Apache-2.0
//
// wo_a for Hopper: inverse RoPE + MXFP8 quantization + grouped WO-A projection.
//
wo_a_facts
fact(<|attr.trigger|>, TRIGGER_AFTER_WAIT)
fact(<|attr.grid_y|>, GRID_Y)
fact(<|attr.any_clusters|>, 1)
fact(<|attr.teams|>, TEAMS)
divert(1)dnl
//
wo_a_prototype
//
remark(<|Launch: grid (|>HEADS<| * C, |>GRID_Y<|, 1), block (|>THREADS<|, 1, 1), cluster (|>HEADS<|, 1, 1); C of N/|>TILE_N<| at most.|>)
remark(<|CTA (c, y): rank c % heads = the head of its group.  N/|>TILE_N<| n tiles are divided among C clusters,|>)
// neighbouring ones to each, the first ones one more if they do not come out even.
m4_if(GRID_Y > 1, <|dnl
remark(<|Cluster v = y * C + c / heads: those of number v / |>GRID_Y<|, of the |>TOKENS<| tokens from v % |>GRID_Y<| * |>TOKENS<| on.|>)
|>, <|dnl
// Cluster c / heads: those of its number, of all tokens.
|>)dnl
// x is read and quantized once for each group that these n tiles belong to.
//
// Warps, by role:
m4_if(TEAMS == 2, <|dnl
remark(<|  0 .. |>eval(WARPS - 1)<|   teams 0 and 1, |>TEAM_WARPS<| each: quantize x; multiply the n tiles in turn, send the|>)
//            sums to their owners
remark(<|  |>WARPS<| .. |>eval(FIRST_COURIER - 1)<|  writers: add what all heads sent of an n tile, quantize, store|>)
remark(<|  |>FIRST_COURIER<|, |>eval(FIRST_COURIER + 1)<|   couriers of the teams: request weights, work out what to fold into them|>)
|>, <|dnl
//   0 .. 7   the team: quantizes x; multiplies n tile by n tile, sends the sums to their owners;
//            adds what all heads sent, quantizes, stores
//   8        its courier: requests weights, works out what to fold into them
|>)dnl
//
wo_a_fullness
//
// Shared memory, dynamic, the start 1024-byte aligned:
//   offset   bytes  field
shared_field(<|S_W|>, STAGES * W_STAGE, 1024, <|weights: stage, row, 128 bytes of K; 128B swizzle|>)
shared_field(<|S_INBOX|>, INBOXES * TEAM_INBOX, 128, <|partial sums: inbox, sender, class slot, vector, weight row|>)
shared_field(<|S_W_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale words: stage, row|>)
shared_field(<|S_W_FIELDS|>, STAGES * SCALE_STAGE, 128, <|exponent fields to fold in: stage, row|>)
shared_field(<|S_W_TOPS|>, TILE_N * 4, 128, <|f32 to apply to the sums, negative if some row cannot be folded: row|>)
shared_field(<|S_LOADED|>, STAGES * 8, 8, <|mbarrier a stage: weights are in|>)
shared_field(<|S_EMPTY|>, STAGES * 8, 8, <|mbarrier a stage: weights are used up|>)
shared_field(<|S_SCALES_LOADED|>, 8, 8, <|mbarrier: scale words are in|>)
shared_field(<|S_INSPECTED|>, 8, 8, <|mbarrier: fields and tops are in|>)
shared_field(<|S_REDUCED|>, INBOXES * 8, 8, <|mbarrier: the inbox is full|>)
shared_field(<|S_FREE|>, INBOXES * 8, 8, <|mbarrier: all inboxes we send to are read|>)
constant(<|TEAM_BYTES|>, (SHARED_BYTES + 1023) / 1024 * 1024)dnl
define(<|SHARED_BYTES|>, eval(TEAMS * TEAM_BYTES))dnl
m4_if(TEAMS == 2, <|dnl
remark(<|  All of the above is team 0's; team 1 has the same again, |>TEAM_BYTES<| bytes further.|>)
|>)dnl
shared_field(<|S_X|>, X_ATOMS * X_ATOM, 1024, <|activations: 64 of K, token; 128B swizzle|>)
shared_field(<|S_X_SCALES|>, COLUMNS * BLOCKS, 16, <|scales to apply: token, block|>)
shared_field(<|S_X_FACTORS|>, COLUMNS * 4, 16, <|f32 to apply to the sums of a token that was folded|>)
shared_field(<|S_RANGE|>, COLUMNS * 8, 8, <|largest and least scale of a token|>)
divert(0)dnl
m4_assert(SHARED_BYTES <= MOST_SHARED_BYTES, <|more shared memory than a CTA can have|>)dnl
fact(<|shared_dynamic|>, SHARED_BYTES)
undivert(1)dnl
//
// Barriers.  Each team has its own mbarriers.  Each completes one phase per n tile of the team,
m4_if(INBOXES > 1, <|dnl
// those of an inbox (S_REDUCED, S_FREE) per n tile that has it,
|>)dnl
// except where nobody waits: S_FREE after the last n tile of the inbox; S_REDUCED of a rank without
// tokens.
m4_if(HEADS == 1, <|dnl
//   bar 0            all threads: the mbarriers are set up
|>)dnl
//   bar 1            the teams: the ranges are clear, the activations of the group before used up;
m4_if(BATCHES > 1, <|dnl
//                    the ranges of a batch of tokens are complete; the activations are in
|>, <|dnl
//                    the ranges of all tokens are complete; the activations are in
|>)dnl
//   bar 2            warps with rotated blocks and couriers, if weights wait: rope is under way
//   S_LOADED         1 arrival with the bytes of the weight box
remark(<|  S_EMPTY          |>TEAM_WARPS<| arrivals, one a warp of the team|>m4_if(TEAMS > 1, <|<|; the courier waits, of stage |>TURN_STAGE<| the|>|>))
m4_if(TEAMS > 1, <|dnl
//                    other team, too: they multiply in turn
|>)dnl
//   S_SCALES_LOADED  1 arrival with the bytes of the scale box
//   S_INSPECTED      1 arrival, of the courier
m4_if(HEADS > 1, <|dnl
//   S_REDUCED        1 arrival with the bytes of all partial sums we own
|>, <|dnl
remark(<|  S_REDUCED        |>eval(TEAM_WARPS * 32)<| arrivals, one a thread of the team|>)
|>)dnl
m4_if(HEADS > 1, <|dnl
remark(<|  S_FREE           |>FREE_ARRIVALS<| arrivals, one a warp that reads in each rank that owns tokens|>)
|>, <|dnl
remark(<|  S_FREE           |>FREE_ARRIVALS<| arrivals, one a thread that reads|>)
|>)dnl
m4_if(HEADS > 1, <|dnl
//   cluster barrier  the mbarriers are set up
|>)dnl
//
// Registers that live throughout:
//   smem, team        start of our shared memory, of our team's part (shared::cta addresses)
//   tid, lane, warp   thread in the CTA, in the warp; warp in the CTA
//   team_warp         warp in the team
//   rank              CTA in the cluster = head in the group
remark(<|  n_tile, tiles     our team's n tile (of |>TILE_N<| outputs), now or next; how many n tiles of the|>)
//                     cluster are left from it on (none if that is not above 0)
//   first_row         first token of the CTA, in the call
//   courier, leader   predicates: a courier; its one thread that copies
m4_if(INBOXES == 2, <|dnl
//   parity            of the phase of this n tile, and the number of its inbox
//   lap, lapped       parity of the mbarriers of that inbox; predicate: it was used before
|>, <|dnl
//   parity            of the phase of this n tile
|>)dnl
//   sent_before       predicate: our team had an n tile before
//   quantized_before  predicate: x of a group was quantized before
//   group, group_end  the group whose x is quantized; its last n tile + 1
//
// Measured on an H200, with H = 8 and R = 1024: TUNING.md.

.version 9.0
.target sm_90a
.address_size 64

wo_a_entry
{
  .reg .pred leader, courier, serves;
  .reg .b32 smem, team, tid, lane, warp, team_warp, rank, n_tile, tiles, first_row;

  // ---- who and where we are ---------------------------------------------------------
  .reg .pred elected;
  mov.u32 smem, dynamic_shared;
  mov.u32 tid, %tid.x;
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  setp.ge.u32 courier, warp, FIRST_COURIER;  // FIRST_COURIER
  {
    .reg .b32 cta;
    mov.u32 cta, %ctaid.x;
    place_in_grid(cta)
  }
  elect.sync _|elected, 0xffffffff;
  and.pred leader, courier, elected;

  .reg .b32 flag_bits;
  .reg .pred trigger_entry, trigger_after_wait, weights_wait;
  ld.param.u32 flag_bits, [flags];
  {
    .reg .pred one;
    .reg .b32 trigger;
    and.b32 trigger, flag_bits, FLAG_WEIGHTS_AFTER_WAIT;  // FLAG_WEIGHTS_AFTER_WAIT
    setp.ne.u32 weights_wait, trigger, 0;
    setp.eq.u32 one, tid, 0;
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    setp.eq.and.u32 trigger_entry, trigger, TRIGGER_ENTRY, one;  // TRIGGER_ENTRY
    setp.eq.and.u32 trigger_after_wait, trigger, TRIGGER_AFTER_WAIT, one;  // TRIGGER_AFTER_WAIT
  }
  pdl_trigger_if(trigger_entry)

  // The group needs a division.  It is that of the cluster's first n tile: team 1's first may be in
  // the next one.
  .reg .b32 group, group_end;
  {
    .reg .b32 per_group;
    ld.param.u32 per_group, [tiles_per_group];
    div.u32 group, n_tile, per_group;
    mad.lo.u32 group_end, group, per_group, per_group;
  }
m4_if(TEAMS > 1, <|dnl
  .reg .pred serves_all;
  {
    .reg .b32 number;
    shr.u32 number, warp, m4_log2(TEAM_WARPS);  // warp / TEAM_WARPS
    @courier sub.u32 number, warp, FIRST_COURIER;  // FIRST_COURIER
    setp.ge.u32 serves_all, number, TEAMS;  // TEAMS
    @serves_all mov.u32 number, 0;  // writers begin with team 0's
    mad.lo.u32 team, number, TEAM_BYTES, smem;  // TEAM_BYTES
    add.u32 n_tile, n_tile, number;  // our team's first
    sub.u32 tiles, tiles, number;
  }
|>, <|dnl
  mov.u32 team, smem;
|>)dnl

  // ---- barriers, then the weights: nothing here depends on an earlier kernel ------------
  // One thread of a courier does both, so the copies need not wait for the other threads.
  only_begin(requested, leader)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_create(LOADED(STAGE), 1)
|>)dnl
  mbarrier_create(AT(S_SCALES_LOADED), 1)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_create(EMPTY(STAGE), TEAM_WARPS)
|>)dnl
  mbarrier_create(AT(S_INSPECTED), 1)
m4_for(<|BOX|>, 0, INBOXES - 1, <|
  mbarrier_create(AT(S_REDUCED + 8 * BOX), m4_if(HEADS > 1, 1, eval(TEAM_WARPS * 32)))
  mbarrier_create(AT(S_FREE + 8 * BOX), FREE_ARRIVALS)
|>)dnl
  mbarrier_create_fence
  {
    .reg .pred idle;
    setp.le.s32 idle, tiles, 0;
    @idle bra requested;
  }
  pdl_wait_if(weights_wait)
  request_stages(0, eval(FIRST_STAGES - 1))
  request_scales_of_tile
m4_if(HEADS > 1, <|dnl
  expect_classes(AT(S_REDUCED))
m4_if(INBOXES == 2, <|dnl
  {
    .reg .pred only_one;
    setp.le.s32 only_one, tiles, TEAMS;  // TEAMS
    @only_one bra both_expected;
  }
  expect_classes(AT(S_REDUCED + 8))
both_expected:
|>)dnl
|>)dnl
  @weights_wait bra requested;  // the other stages behind x and rope: rest_of_weights
  request_stages(FIRST_STAGES, eval(STAGES - 1))
  only_end_apart

m4_if(HEADS > 1, <|dnl
  cluster_arrive_relaxed  // the mbarriers for our threads and the peers', once they waited
|>, <|dnl
  bar.sync 0;  // the mbarriers are set up
|>)dnl

  .reg .pred sent_before, quantized_before;
  .reg .b32 parity;
  setp.ne.u32 sent_before, lane, lane;  // no
  setp.ne.u32 quantized_before, lane, lane;
  mov.u32 parity, 0;
m4_if(INBOXES == 2, <|dnl
  .reg .pred lapped;
  .reg .b32 lap;
  setp.ne.u32 lapped, lane, lane;
  mov.u32 lap, 0;
|>)dnl
  setp.ge.u32 serves, warp, WARPS;  // WARPS
  @serves bra.uni servers;
  and.b32 team_warp, warp, eval(TEAM_WARPS - 1);
  clear_ranges

  // Repeated for each group: a cluster's n tiles may span several.
next_group:
  // ---- which thread holds what ----------------------------------------------------------
  // A lane of warp w: elements 8l .. 8l + 7 of its blocks, of token p of each octet.  Of the
  // lane number bits 1..0 are l; bits 2, 4, 3 are bits 0, 1, 2 of p: half a warp stores at once,
  // and the swizzle gives its tokens different banks then.
  .reg .pred rotary, upper_part;
  .reg .b32 place, part, half_shift, x_row, last_row;
  {
    .reg .b32 bit;
    bfe.u32 place, lane, 2, 1;
    bfe.u32 bit, lane, 3, 1;
    mad.lo.u32 place, bit, 4, place;
    bfe.u32 bit, lane, 4, 1;
    mad.lo.u32 place, bit, 2, place;
  }
  and.b32 part, lane, 3;
  setp.ge.u32 upper_part, part, 2;
  and.b32 half_shift, lane, 1;
  shl.b32 half_shift, half_shift, 4;
  add.u32 x_row, first_row, place;  // in the call, of the first octet
  ld.param.u32 last_row, [tokens];
  sub.u32 last_row, last_row, 1;  // rows past the end repeat it
m4_if(GRID_Y > 1, <|dnl
  {
    .reg .b32 last_of_ours;  // what pads our octets must not be tokens of others
    add.u32 last_of_ours, first_row, eval(TOKENS - 1);
    min.u32 last_row, last_row, last_of_ours;
  }
|>)dnl
  setp.ge.u32 rotary, warp, FIRST_ROTARY_WARP;  // FIRST_ROTARY_WARP

  .reg .b64 x_from, x_stride, position_from, rope_from;
  .reg .b32 x_to, x_to_next, own, own_range, own_scale;
  {
    .reg .b64 column;
    .reg .b32 chunk, head, offset, slot, atom;
    mad.lo.u32 chunk, warp, 4, part;  // of the 64 of 8 elements in a head, in the first pass
    ld.param.u64 x_from, [x];
    cvta.to.global.u64 x_from, x_from;
    mad.lo.u32 head, group, HEADS, rank;  // of the token: group * HEADS + rank
    mad.wide.u32 x_from, head, eval(2 * HEAD_DIM), x_from;  // bytes of a head
    shl.b32 offset, chunk, 4;  // bytes of a chunk
    cvt.u64.u32 column, offset;
    add.u64 x_from, x_from, column;
    ld.param.u64 x_stride, [x_token_stride];

    ld.param.u64 position_from, [positions];
    cvta.to.global.u64 position_from, position_from;

    ld.param.u64 rope_from, [rope];
    cvta.to.global.u64 rope_from, rope_from;
    sub.u32 offset, chunk, eval(4 * FIRST_ROTARY_WARP);  // chunk of the rotated part; where rotary
    shl.b32 offset, offset, 4;  // 4 pairs of 4 bytes
    cvt.u64.u32 column, offset;
    add.u64 rope_from, rope_from, column;

    and.b32 slot, chunk, 7;  // chunk of 8 elements in the row of 64
    shr.u32 slot, slot, 1;
    shl.b32 slot, slot, 1;  // first 16 bytes of its step of 16
    xor.b32 slot, slot, place;  // swizzle: ^ token % 8
    shr.u32 atom, chunk, 3;
    mad.lo.u32 x_to, atom, X_ATOM, smem;  // X_ATOM
    mad.lo.u32 x_to, place, X_ROW, x_to;  // X_ROW
    mad.lo.u32 x_to, slot, 16, x_to;
    and.b32 slot, chunk, 1;  // half of the step
    mad.lo.u32 x_to, slot, 8, x_to;
    xor.b32 x_to_next, x_to, 16;
    own_places
  }

  .reg .b32 position, unfolded;
  .reg .b32 c<eval(4 * BATCH_OCTETS * PASSES)>;  // the chunks, two elements a register
  mov.b32 unfolded, 0;  // 1: a token that cannot be folded
  mov.b32 position, 0;  // only rotary warps load it
  pdl_wait  // x, positions, rope and the outputs belong to earlier kernels until here
  pdl_trigger_if(trigger_after_wait)
  warps_begin(position_requested, rotary)
  load_position(position)
  warps_end
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
  load_chunks(c, I)
|>)dnl
m4_if(HEADS > 1, <|dnl
  @quantized_before bra.uni mbarriers_ready;
  cluster_wait  // every peer is ready to receive
mbarriers_ready:
|>)dnl
  bar.sync BARRIER_TEAMS, eval(WARPS * 32);  // the ranges are clear, the activations of the group before used up

m4_if(BATCHES > 1, <|dnl
  // Repeated for each batch.  The next one's chunks are requested before this one is encoded;
  // behind the last one they are not used.
  .reg .pred more;
  .reg .b32 batches;  // left
  .reg .b32 next<eval(4 * BATCH_OCTETS * PASSES)>;
  mov.u32 batches, BATCHES;  // BATCHES
next_batch:
  sub.u32 batches, batches, 1;
  setp.ne.u32 more, batches, 0;
  add.u32 x_row, x_row, eval(8 * BATCH_OCTETS);
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
  load_chunks(next, I)
|>)dnl

|>)dnl
  // ---- rotate back, quantize -----------------------------------------------------------------
  .reg .b32 scale<PASSES>;
m4_if(ROPE_AHEAD, <|dnl
  .reg .f32 cosine<eval(4 * BATCH_OCTETS)>, sine<eval(4 * BATCH_OCTETS)>;
  warps_begin(rope_requested, rotary)
  request_rope
  warps_end
|>)dnl
m4_for(<|PASS|>, 0, LAST_PASS - 1, <|
  encode_blocks(PASS)
|>)dnl
  @rotary bra.uni encode_rotary;
  encode_blocks(LAST_PASS)
  bra.uni encoded;

encode_rotary:
  {
m4_if(!ROPE_AHEAD, <|dnl
    .reg .f32 cosine<eval(4 * BATCH_OCTETS)>, sine<eval(4 * BATCH_OCTETS)>;
    request_rope
|>)dnl
    .reg .f32 v<eval(8 * BATCH_OCTETS)>;
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
    widen_chunk(I)
    rotate_chunk(I)
|>)dnl
    encode_rotated_blocks
  }

encoded:
  bar.sync BARRIER_TEAMS, eval(WARPS * 32);  // the ranges of these tokens are complete
  // ---- fold, store as the tensor core wants it ---------------------------------------------
  {
    .reg .b32 top, bottom, fold<PASSES>;
    ld.shared.v2.b32 {top, bottom}, [own_range+S_RANGE];  // S_RANGE
m4_for(<|PASS|>, 0, LAST_PASS, <|
    fold_block(PASS)
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
    store_chunk(PASS, I)
|>)dnl
|>)dnl
  }
m4_if(BATCHES > 1, <|dnl
  @!more bra.uni quantized;
  add.u32 own_range, own_range, eval(8 * BATCH_OCTETS * 8);
  add.u32 own_scale, own_scale, eval(8 * BATCH_OCTETS * BLOCKS);
  add.u32 x_to, x_to, eval(BATCH_OCTETS * X_OCTET);
  add.u32 x_to_next, x_to_next, eval(BATCH_OCTETS * X_OCTET);
  add.u32 own, own, eval(8 * BATCH_OCTETS);
m4_for(<|J|>, 0, 4 * BATCH_OCTETS * PASSES - 1, <|
  mov.b32 c<||>J, next<||>J;
|>)dnl
  warps_begin(next_position_requested, rotary)
  load_position(position)
  warps_end
  bra.uni next_batch;

quantized:
|>)dnl
  fence_shared_to_async
  .reg .pred long_tokens;
  setp.ne.u32 long_tokens, unfolded, 0;
  bar.red.or.pred long_tokens, BARRIER_TEAMS, eval(WARPS * 32), long_tokens;  // the activations are in

  // ---- the product: a warp has 16 weight rows, all tokens, all of K ----------------------
  .reg .f32 acc<eval(4 * OCTETS)>;
  .reg .b32 a<eval(8 * BUFFERS)>;  // A operands; those of the block before may be in flight
  .reg .b32 in_four, w_from, x_start;
  and.b32 in_four, lane, 3;  // lane 4g + q: q
  .reg .b32 fields_a<STAGES>, fields_b<STAGES>, apply_a, apply_b;  // of weight rows g and g + 8
  .reg .pred lane0;
  setp.eq.u32 lane0, lane, 0;
  {
    .reg .b32 matrix, w_row, piece;
    shr.u32 matrix, lane, 3;  // of the four that ldmatrix reads
    and.b32 w_row, lane, 7;
    shr.u32 piece, matrix, 1;  // its 16 bytes of the block's 32
    xor.b32 piece, piece, w_row;  // swizzle
    and.b32 matrix, matrix, 1;
    mad.lo.u32 w_row, matrix, 8, w_row;
    mad.lo.u32 w_row, team_warp, WARP_ROWS, w_row;
    mad.lo.u32 w_from, w_row, STAGE_K, team;
    mad.lo.u32 w_from, piece, 16, w_from;
  }
  add.u32 x_start, smem, S_X;  // S_X
  // A descriptor has 14 bits, of 16 bytes each; above them a shared::cta address has the rank.
  bfe.u32 x_start, x_start, 4, 14;

next_tile:
  {
    .reg .pred ours;  // there is one, of this group
    setp.gt.s32 ours, tiles, 0;
    setp.lt.and.u32 ours, n_tile, group_end, ours;
    @!ours bra.uni group_done;
  }
  {
    .reg .pred takes_long;
    .reg .b32 row, at;
    row_of_lane(row)
    mad.lo.u32 at, row, 4, team;
    mbarrier_wait(AT(S_INSPECTED), parity)
    load_row_words(fields_a, at, S_W_FIELDS)
    load_row_words(fields_b, at, S_W_FIELDS + 8 * 4)  // 8 rows on, a word each
    ld.shared.b32 apply_a, [at+S_W_TOPS];  // S_W_TOPS
    ld.shared.b32 apply_b, [at+eval(S_W_TOPS + 8 * 4)];
    setp.lt.or.s32 takes_long, apply_a, 0, long_tokens;
m4_if(TEAMS == 2, <|dnl
    take_turn
|>)dnl
    @takes_long bra.uni long_way;
  }

  {
    .reg .b32 w<eval(4 * LOAD_BLOCKS)>;  // weights of the next blocks, on their way
m4_for(<|STEP|>, 0, LOAD_BLOCKS - 1, <|
    load_weights(STEP)
|>)dnl
m4_for(<|STEP|>, 0, BLOCKS - 1, <|
    remark(<|block |>STEP)
    fold_and_multiply(STEP)
|>)dnl
  }
  trigger_after_last_tile
  // The two scales that were left out; those of the tokens while the last products run.
  {
    .reg .b32 at, token<eval(2 * OCTETS)>;
    mad.lo.u32 at, in_four, 8, smem;  // of two tokens, 4 bytes each
m4_for(<|OCTET|>, 0, OCTETS - 1, <|
    ld.shared.v2.b32 {token<||>eval(2 * OCTET), token<||>eval(2 * OCTET + 1)}, [at+eval(S_X_FACTORS + OCTET * 8 * 4)];  // S_X_FACTORS
|>)dnl
    wgmma.wait_group.sync.aligned 0;
m4_for(<|OCTET|>, 0, OCTETS - 1, <|
m4_for(<|J|>, 0, 3, <|
    mul.rn.f32 ACC(OCTET, J), ACC(OCTET, J), token<||>eval(2 * OCTET + J % 2);
    mul.rn.f32 ACC(OCTET, J), ACC(OCTET, J), m4_if(J / 2, apply_b, apply_a);
|>)dnl
|>)dnl
  }

multiplied:
  // ---- every token to its owner ----------------------------------------------------------
  @!m4_if(INBOXES == 2, <|lapped|>, <|sent_before|>) bra.uni inboxes_free;
  {
    .reg .b32 bars, before;
    inbox_barriers(bars)
    xor.b32 before, LAP, 1;
    m4_if(HEADS > 1, <|mbarrier_wait_cluster|>, <|mbarrier_wait|>)(bars+S_FREE, before)
  }
inboxes_free:
  {
    .reg .b32 row, bars, inbox;
    inbox_barriers(bars)
    row_of_lane(row)
    mad.lo.u32 inbox, rank, INBOX_SENDER, team;  // INBOX_SENDER
    mad.lo.u32 inbox, row, eval(VECTOR * 4), inbox;
m4_if(INBOXES == 2, <|dnl
    mad.lo.u32 inbox, parity, TEAM_INBOX, inbox;  // TEAM_INBOX
|>)dnl
    send_class(0)
    send_class(1)
m4_if(HEADS == 1, <|dnl
    mbarrier_arrive(bars+S_REDUCED)
|>)dnl
  }
m4_if(TEAMS == 1, <|dnl

  // ---- sum in the order of heads, round to bf16, quantize, store -------------------------------
  sum_and_write
|>)dnl
  following_tile
  bra.uni next_tile;

group_done:
  {
    .reg .pred last_group;
    .reg .b32 all_end, per_group;
    add.s32 all_end, n_tile, tiles;  // the cluster's last n tile + 1
    setp.le.u32 last_group, all_end, group_end;
    @last_group exit;
    ld.param.u32 per_group, [tiles_per_group];
    add.u32 group, group, 1;
    add.u32 group_end, group_end, per_group;
  }
  setp.eq.u32 quantized_before, lane, lane;
  clear_ranges
  bra.uni next_group;

  // ---- warps that serve the teams -----------------------------------------------------------
servers:
m4_if(HEADS > 1, <|dnl
  cluster_wait  // every peer is ready for what we tell it
|>)dnl
  @courier bra.uni couriers;
m4_if(TEAMS > 1, <|dnl

  // ---- writers: what all heads say of an n tile, summed in the order of heads, out --------------
m4_assert(OWNERS == HEADS, <|writers of a rank without tokens|>)dnl
  pdl_wait  // the outputs belong to earlier kernels until here
next_outputs:
  sum_and_write
  {
    .reg .pred last;
    setp.eq.u32 last, tiles, 1;
    @last exit;
  }
  other_team_follows
  bra.uni next_outputs;
|>)dnl

  // ---- couriers: a team's copies, and what to fold into its weights ----------------------------
couriers:
  {
    .reg .pred idle;
    setp.le.s32 idle, tiles, 0;
    rest_of_weights(idle)
    @idle exit;
  }
next_load:
  inspect_scales
  sub.s32 tiles, tiles, TEAMS;  // TEAMS
  add.u32 n_tile, n_tile, TEAMS;  // TEAMS
  {
    .reg .pred last;
    setp.le.s32 last, tiles, 0;
    @last exit;
  }
  only_begin(refilled, leader)
  refill_stages
  only_end_apart
  xor.b32 parity, parity, 1;
  bra.uni next_load;

  // The long way, a block at a time: acc += (A * B) * scale of the row * scale of the token.
long_way:
  {
    .reg .pred nan_a, nan_b, again, unused;
    .reg .b32 top_a, top_b, unused_fold, scales_a<STAGES>, scales_b<STAGES>;  // of rows g and g + 8
    .reg .f32 start_a, start_b;
    .reg .b32 number;
    load_row_scales
    mov.pred unused, long_tokens;
    inspect_row(top_a, unused_fold, unused, scales_a)
    inspect_row(top_b, unused_fold, unused, scales_b)
    setp.eq.u32 nan_a, top_a, UE8M0_NAN;  // a NaN among its scales: so are its sums
    setp.eq.u32 nan_b, top_b, UE8M0_NAN;  // UE8M0_NAN
    selp.f32 start_a, F32_NAN, F32_ZERO, nan_a;
    selp.f32 start_b, F32_NAN, F32_ZERO, nan_b;
m4_for(<|OCTET|>, 0, OCTETS - 1, <|
m4_for(<|J|>, 0, 3, <|
    mov.f32 ACC(OCTET, J), m4_if(J / 2, start_b, start_a);
|>)dnl
|>)dnl
    mov.u32 number, 0;  // of the block
next_block:
    .reg .b32 w<4>, a<8>, row_a, row_b, x_low, x_scales;
    {
      .reg .b32 at, of_stage, stage;
      and.b32 of_stage, number, eval(STAGE_BLOCKS - 1);
      shr.u32 stage, number, m4_log2(STAGE_BLOCKS);
      mad.lo.u32 at, stage, 8, team;
      mbarrier_wait(at+S_LOADED, parity)
      mul.lo.u32 at, of_stage, BLOCK;  // BLOCK
      xor.b32 at, w_from, at;
      mad.lo.u32 at, stage, W_STAGE, at;  // W_STAGE
      load_block(0, at, S_W)
      shr.u32 at, number, 1;
      mad.lo.u32 x_low, at, eval(X_ATOM / 16), x_start;
      and.b32 at, number, 1;
      mad.lo.u32 x_low, at, eval(64 / 16), x_low;
    }
    widen_block(0, 0)
    // The next scale bytes; the 16 of a row are one long number.
    and.b32 row_a, scales_a0, 0xff;
    and.b32 row_b, scales_b0, 0xff;
m4_for(<|STAGE|>, 0, STAGES - 1, <|
    shf.r.wrap.b32 scales_a<||>STAGE, scales_a<||>STAGE, scales_a<||>m4_min(STAGE + 1, STAGES - 1), 8;
    shf.r.wrap.b32 scales_b<||>STAGE, scales_b<||>STAGE, scales_b<||>m4_min(STAGE + 1, STAGES - 1), 8;
|>)dnl
    mad.lo.u32 x_scales, in_four, eval(2 * BLOCKS), smem;
    add.u32 x_scales, x_scales, number;
m4_for(<|PART|>, 0, m4_ceil_div(OCTETS, 4) - 1, <|
    add_block(PART * 4, m4_min(4, OCTETS - PART * 4))
|>)dnl
    add.u32 number, number, 1;
    {
      .reg .pred stage_done;
      .reg .b32 at;
      and.b32 at, number, eval(STAGE_BLOCKS - 1);
      setp.eq.u32 stage_done, at, 0;
      warps_begin(released, stage_done)
      shr.u32 at, number, m4_log2(STAGE_BLOCKS);
      mad.lo.u32 at, at, 8, team;
      release_stage(at+eval(S_EMPTY - 8))
      warps_end
    }
    setp.lt.u32 again, number, BLOCKS;  // BLOCKS
    @again bra.uni next_block;
  }
  trigger_after_last_tile
  bra.uni multiplied;
}
