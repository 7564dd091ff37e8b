divert(-1)
m4_once(<|wo_a_sm90_stream_sizes.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_90a for T >= 5: who does what, where it lies, and how scales are folded: the
// constants of wo_a_sm90_stream.ptx.m4.

// ---- sizes ----------------------------------------------------------------------------

constant(<|BLOCK|>, 32)                    // elements with one scale
constant(<|BLOCKS|>, HEAD_DIM / BLOCK)
constant(<|STAGE_BLOCKS|>, STAGE_K / BLOCK)

// A CTA takes up to MOST_TILES tiles of the tokens, 96 tokens at most.  With 5 to 7 heads, among which
// the 8 classes of the split come out least even, inboxes are larger and 64 are the most.
constant(<|MOST_TILES|>, m4_if(HEADS > 4 && HEADS < 8, 2, 3))
constant(<|GRID_Y|>, m4_ceil_div(TILES, MOST_TILES))
constant(<|TOKENS|>, TILE * TILES / GRID_Y)
constant(<|OCTETS|>, m4_ceil_div(TOKENS, 8))  // of tokens: an octet is 8 columns of the product

// They are quantized in batches of up to 4 octets, of up to 3 where there are more than 8 in all,
// which leaves registers for ROPE_AHEAD.  The last batch may be padded.
constant(<|BATCHES|>, m4_ceil_div(OCTETS, m4_if(OCTETS > 8, 3, 4)))
constant(<|BATCH_OCTETS|>, m4_ceil_div(OCTETS, BATCHES))
constant(<|COLUMNS|>, BATCHES * BATCH_OCTETS * 8)

// A team multiplies an n tile, 16 weight rows a warp, and sends the sums to their owners.  All
// teams quantize x.  Each has a courier, a warp that requests its weights and works out what to
// fold into them.  Of two teams the inboxes are read by warps of their own, the writers; a single
// team does it itself.
constant(<|WARP_ROWS|>, 16)
constant(<|ONE_TEAM_TOKENS|>, 16)             // up to which two CTAs an SM beat two teams
constant(<|TEAMS|>, m4_if(TOKENS > ONE_TEAM_TOKENS, 2, 1))
constant(<|TEAM_WARPS|>, TILE_N / WARP_ROWS)
constant(<|WARPS|>, TEAMS * TEAM_WARPS)
constant(<|WRITER_WARPS|>, m4_if(TEAMS > 1, 4, 0))
constant(<|FIRST_COURIER|>, WARPS + WRITER_WARPS)
constant(<|THREADS|>, (FIRST_COURIER + TEAMS) * 32)
constant(<|READER_WARPS|>, m4_if(TEAMS > 1, WRITER_WARPS, TEAM_WARPS))
// A quarter of an SM has 16,384 registers for its warps, of one CTA with two teams or of two CTAs
// with one; a thread gets a multiple of 8.
constant(<|CTAS|>, m4_if(TEAMS > 1, 1, 2))
constant(<|MAX_REGISTERS|>, 16384 / 32 / m4_ceil_div(CTAS * THREADS / 32, 4) / 8 * 8)
constant(<|BUFFERS|>, 2)                   // blocks whose A operands are held
constant(<|LOAD_BLOCKS|>, m4_if(OCTETS > 3, 2, 4))  // blocks whose weights are loaded ahead
constant(<|TURN_STAGE|>, 1)                // once a team has used it up, the other may multiply

// Quantizing: warp w has block w of every token, and block w + WARPS in a second pass where 8
// warps do it.  A thread has 8 elements of every octet of a batch, all requested at once.
constant(<|PASSES|>, BLOCKS / WARPS)
constant(<|LAST_PASS|>, PASSES - 1)
// Where there are two passes and registers for it, cosines are requested before the first.
constant(<|ROPE_AHEAD|>, PASSES > 1 && (BATCHES == 1 || BATCH_OCTETS < 4))
constant(<|FIRST_ROTARY_WARP|>, (HEAD_DIM - ROPE_DIM) / BLOCK - LAST_PASS * WARPS)
m4_assert(FIRST_ROTARY_WARP >= 0, <|only the last pass has rotated blocks|>)

// Activations, f16, B operand of wgmma: K-major, 128B swizzle.  Each block keeps its order of
// K from ldmatrix, which gives lane 4g + q bytes 4q..4q+3 and 16+4q..16+4q+3 of the weights:
// of the two steps of 16 that make a block the first is elements 0..15, in the order 0, 1, 4,
// 5, 8, 9, 12, 13, 2, 3, ..
constant(<|X_ROW|>, 128)
constant(<|X_OCTET|>, 8 * X_ROW)
constant(<|X_ATOM|>, BATCHES * BATCH_OCTETS * X_OCTET)
constant(<|X_ATOMS|>, HEAD_DIM * 2 / X_ROW)
constant(<|X_PASS|>, X_ATOMS / PASSES * X_ATOM)  // of a pass's blocks
// Upper word of a descriptor: 1024 bytes from 8 rows to the next, 128B swizzle.
constant_text(<|DESCRIPTOR_K_MAJOR_128B|>, 0x40000040)

// Split-K.  Column t % 8 of the product is class t % 8 of the tokens; a class belongs to rank
// class % HEADS, where it has slot class / HEADS.  A thread has whole classes of its rows, one
// word an octet, and sends them as vectors of up to 4.
constant(<|CLASSES|>, m4_min(8, TOKENS))
constant(<|OWNERS|>, m4_min(HEADS, CLASSES))
constant(<|CLASS_SLOTS|>, m4_ceil_div(CLASSES, HEADS))
constant(<|VECTOR|>, m4_min(4, m4_power_of_2(OCTETS)))  // words of one st.async
constant(<|VECTORS|>, m4_ceil_div(OCTETS, VECTOR))
constant(<|INBOX_VECTOR|>, TILE_N * VECTOR * 4)
constant(<|INBOX_CLASS|>, VECTORS * INBOX_VECTOR)
constant(<|INBOX_SENDER|>, CLASS_SLOTS * INBOX_CLASS)
constant(<|TEAM_INBOX|>, HEADS * INBOX_SENDER)
constant(<|CLASS_BYTES|>, HEADS * INBOX_CLASS)   // that its owner receives

// Inboxes of a team.  Two, where they fit, take turns: peers send while the one before is read.
constant(<|INBOXES|>, m4_if(TILES > 1 && TOKENS <= 64 && HEADS != 6 && HEADS != 7, 2, 1))
// The parity of the mbarriers of an inbox: with two, that of the n tile is the inbox's number.
define(<|LAP|>, <|m4_if(INBOXES == 2, <|lap|>, <|parity|>)|>)

// Who sums: a thread has one weight row; of a vector half of the words, if there are twice as many
// threads as rows.
constant(<|HALVES|>, m4_if(READER_WARPS * 32 > TILE_N && VECTOR > 1, 2, 1))
constant(<|WORDS|>, VECTOR / HALVES)
constant(<|SLOT_WORDS|>, VECTORS * WORDS)  // of a thread, of one class slot
constant(<|SUM_WARPS|>, m4_if(TEAMS == 1 && HALVES == 1, TILE_N / 32, READER_WARPS))  // that have any
// Who says that inboxes are free: one lane of each of these warps of each owner; alone, every thread.
constant(<|FREE_ARRIVALS|>, m4_if(HEADS > 1, OWNERS * SUM_WARPS, SUM_WARPS * 32))

// Named barriers: of the warps that quantize; of those with rotated blocks and the couriers.
constant(<|BARRIER_TEAMS|>, 1)
constant(<|BARRIER_ROPE|>, 2)
constant(<|ROPE_THREADS|>, 32 * (ROPE_DIM / BLOCK + TEAMS))

// What a CTA of an H100 or H200 can have: 227 KiB.
constant(<|MOST_SHARED_BYTES|>, 232448)

// ---- how scales are folded -------------------------------------------------------------
//
// A weight code times 2^e is an f16 without loss for -15 <= e <= 7, and so is an activation.
// A row takes e = scale - its largest scale + 7, a token likewise, so that one chain of
// products runs over the whole head; the two largest scales are applied to the sum.  This
// needs all scales of a row (and of a token, zero blocks aside) within FOLD_SPAN of the
// largest, and a token's largest not above FOLD_TOKEN_MAX: then no step leaves f32 unless the
// result does.  Else all tokens of the CTA take the long way, block by block, which rounds
// differently.  A block with a NaN or an infinity has no say in this: its token comes out NaN
// whatever the factor, and the other tokens must keep their bits.
constant(<|FOLD_SPAN|>, 21)
constant(<|FOLD_TOP|>, 7)                  // e of the largest
constant(<|FOLD_FIELD|>, FOLD_TOP + 15)    // exponent field of that f16
constant(<|FOLD_TOKEN_MAX|>, 219)          // 2^41, the largest sum, * 2^(219-127-7) < 2^127
constant(<|LEAST_TOKEN_SCALE|>, 85)        // of an amax of 1e-10
constant(<|NO_SCALE_YET|>, 255)            // above every scale of a finite block
constant_text(<|F16X2_ONE|>, 0x3c003c00)

// Element J of the accumulator of group I.
define(<|ACC|>, <|acc<||>eval(4 * ($1) + $2)|>)

// Addresses in the memory of our team, in place of the CTA's.
define(<|AT|>, <|team+eval($1)|>)
define(<|LOADED|>, <|team+eval(S_LOADED + 8 * ($1))|>)
define(<|EMPTY|>, <|team+eval(S_EMPTY + 8 * ($1))|>)

divert(0)dnl
