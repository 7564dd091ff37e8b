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

// A CTA takes all tokens up to 96, else half of them: shared memory has no room for more.  Where n
// tiles are few, halves are better for fewer, too.
constant(<|GRID_Y|>, m4_if(TILES > 3 || HALVED, 2, 1))
m4_assert(!HALVED || (TILES > 1 && TILES < 4), <|only several tiles that one CTA could take|>)
constant(<|TOKENS|>, TILE * TILES / GRID_Y)
constant(<|GROUPS|>, m4_ceil_div(TOKENS, 8))  // groups of 8 tokens: 8 columns of the product
constant(<|COLUMNS|>, GROUPS * 8)

// Threads.  Warps 0..7 multiply, 16 weight rows each, as two warpgroups; warps 8..15 add the
// heads and write.  Before that warp w quantizes block w of 8 tokens at a time.
constant(<|THREADS|>, 512)
constant(<|PRODUCT_WARPS|>, 8)
constant(<|WARP_ROWS|>, 16)
constant(<|WARPGROUP_THREADS|>, 128)
constant(<|WRITER_THREADS|>, 256)
constant(<|FIRST_WRITER|>, THREADS - WRITER_THREADS)
m4_assert(THREADS / 32 == BLOCKS, <|one warp a block|>)
constant(<|FIRST_ROTARY_WARP|>, (HEAD_DIM - ROPE_DIM) / BLOCK)
// Up to 24 tokens two CTAs fit on an SM, and so have 64 registers a thread; above one does.
constant(<|MAX_REGISTERS|>, m4_if(GROUPS > 3, 128, 64))
// With 9 to 24 tokens the product needs more than 64: the writers give theirs up.
constant(<|BUFFERS|>, 2)                   // blocks whose A operands are held
constant(<|LOAD_BLOCKS|>, m4_if(GROUPS == 2 || GROUPS == 3, 4, 2))  // blocks whose weights are loaded ahead
constant(<|SHIFT_REGISTERS|>, MAX_REGISTERS == 64 && GROUPS > 1)
constant(<|PRODUCT_REGISTERS|>, 80)
constant(<|WRITER_REGISTERS|>, 48)

// Quantizing: each thread has 8 elements of every group, all requested at once.  The four lanes
// of a block share the work on the scales of four groups, a quad.
constant(<|QUADS|>, m4_ceil_div(GROUPS, 4))
define(<|QUAD_GROUPS|>, <|m4_min(4, GROUPS - 4 * ($1))|>)  // groups of quad Q
define(<|QUAD_LAST|>, <|m4_min(4 * ($1) + 3, GROUPS - 1)|>)  // its last group

// Activations, f16, B operand of wgmma: K-major, 128B swizzle.  Each block keeps its order of
// K from ldmatrix, which gives lane 4g + q bytes 4q..4q+3 and 16+4q..16+4q+3 of the weights:
// of the two steps of 16 that make a block the first is elements 0..15, in the order 0, 1, 4,
// 5, 8, 9, 12, 13, 2, 3, ..
constant(<|X_ROW|>, 128)
constant(<|X_GROUP|>, 8 * X_ROW)
constant(<|X_ATOM|>, GROUPS * X_GROUP)
constant(<|X_ATOMS|>, HEAD_DIM * 2 / X_ROW)
// Upper word of a descriptor: 1024 bytes from 8 rows to the next, 128B swizzle.
constant_text(<|DESCRIPTOR_K_MAJOR_128B|>, 0x40000040)

// Split-K.  Column t % 8 of the product is class t % 8 of the tokens; a class belongs to rank
// class % HEADS, where it has slot class / HEADS.  A thread has whole classes of its rows, one
// word a group, and sends them as vectors.
constant(<|CLASSES|>, m4_min(8, TOKENS))
constant(<|OWNERS|>, m4_min(HEADS, CLASSES))
constant(<|CLASS_SLOTS|>, m4_ceil_div(CLASSES, HEADS))
constant(<|VECTOR|>, m4_min(4, m4_power_of_2(GROUPS)))  // words of one st.async
constant(<|VECTORS|>, m4_ceil_div(GROUPS, VECTOR))
constant(<|INBOX_VECTOR|>, TILE_N * VECTOR * 4)
constant(<|INBOX_CLASS|>, VECTORS * INBOX_VECTOR)
constant(<|INBOX_SENDER|>, CLASS_SLOTS * INBOX_CLASS)
constant(<|CLASS_BYTES|>, HEADS * INBOX_CLASS)   // that its owner receives

// Writers: one thread a weight row and half of the words of a vector.
constant(<|WRITER_HALVES|>, m4_if(VECTOR > 1, 2, 1))
constant(<|WRITER_WORDS|>, VECTOR / WRITER_HALVES)

// Named barriers; 0 is that of all threads, 1 and 2 those of the two warpgroups that multiply.
constant(<|BARRIER_WRITERS|>, 3)

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
define(<|EMPTY|>, <|smem+eval(S_EMPTY + 8 * ($1))|>)

divert(0)dnl
