divert(-1)
m4_prelude_again
changequote(<|,|>)
changecom(<|//|>)

// SPDX-License-Identifier: Apache-2.0
//
// What every template includes first:   include(`prelude.m4')dnl
//
// m4 is told here once how to read PTX, and is taught to refuse.  By itself it
// expands a missing argument to nothing, keeps a misspelt constant as text and
// takes an apostrophe for a closing quote, all with exit status 0.  Here every
// error ends the expansion:  FILE:LINE: error: ...  on stderr, exit status 1.
//
// Reading PTX
//   Quotes are <| and |>, which PTX never has: brackets, braces, apostrophes and
//   commas are plain text inside them.
//   Comments are // to the end of the line.  They pass unchanged: names in them are
//   not expanded, so `128, // TILE_N` is what comes out of `TILE_N, // TILE_N`.
//   A comment that needs numbers filled in is written with remark().
//
// Names
//   UPPER_CASE    a constant, made by constant() or a table column (BW_...)
//   lower_case    a macro that emits PTX
//   m4_...        emits no PTX: asserts, arithmetic, loops
//
// What comes out goes through finish.awk, which checks it once more and indents it.

// ---- refusing ---------------------------------------------------------------------

// Usage: m4_error(TEXT)
// Ends the expansion with the place in the template.
define(<|m4_error|>, <|errprint(__file__:__line__: error: <|$1|>
)m4exit(1)|>)

// The second line of this file: plain text the first time, this error the second.
define(<|m4_prelude_again|>, <|m4_error(<|prelude.m4 is included twice|>)|>)

// Usage: m4_arity(NAME, WANTED, GOT, ARGUMENTS...)
// What macro() puts in front of every body: the argument count, and none is empty.
define(<|m4_arity|>,
  <|ifelse(<|$2|>, <|$3|>, <||>, <|m4_error(<|$1: $2 arguments wanted, got $3|>)|>)dnl
ifelse(<|$3|>, 0, <||>, <|m4_all_given(<|$1|>, 1, shift(shift(shift($@))))|>)|>)
define(<|m4_all_given|>,
  <|ifelse(<|$3|>, <||>, <|m4_error(<|$1: argument $2 is empty|>)|>)dnl
ifelse(<|$#|>, 3, <||>, <|m4_all_given(<|$1|>, incr($2), shift(shift(shift($@))))|>)|>)

// Usage: macro(NAME, ARGUMENTS, BODY)
// Defines a macro that emits PTX.  The body starts on a line of its own (that line
// break is dropped) and ends without one.  A name can be defined once.
define(<|macro|>,
  <|ifelse(<|$#|>, 3, <||>, <|m4_error(<|macro $1: 3 arguments wanted, got $#|>)|>)dnl
ifdef(<|$1|>, <|m4_error(<|macro $1 is defined twice|>)|>)dnl
define(<|$1|>, <|m4_arity(<|$1|>, $2, $|><|#, $|><|@)dnl$3|>)|>)

// Usage: m4_defined(NAME...)
// Every NAME is a constant by now.
define(<|m4_defined|>,
  <|ifdef(<|$1|>, <||>, <|m4_error(<|$1 is not defined|>)|>)dnl
ifelse(<|$#|>, 1, <||>, <|m4_defined(shift($@))|>)|>)

// Usage: m4_integer(NAME, LEAST, MOST)
// The constant is a decimal integer of that range.
define(<|m4_integer|>,
  <|m4_defined(<|$1|>)dnl
ifelse(regexp(defn(<|$1|>), <|^\(0\|[1-9][0-9]*\)$|>), 0, <||>,
  <|m4_error(<|$1 is not a number: |>defn(<|$1|>))|>)dnl
m4_assert(defn(<|$1|>) >= $2 && defn(<|$1|>) <= $3,
  <|$1 is |>defn(<|$1|>)<|, not in $2..$3|>)|>)

// Usage: m4_assert(CONDITION, TEXT)
define(<|m4_assert|>,
  <|ifelse(<|$#|>, 2, <||>, <|m4_error(<|m4_assert: 2 arguments wanted, got $#|>)|>)dnl
ifelse(eval($1), 0, <|m4_error(<|$2|>)|>)|>)

// Usage: m4_assert_power_of_2(NAME)
define(<|m4_assert_power_of_2|>,
  <|m4_defined(<|$1|>)m4_assert($1 > 0 && ($1 & ($1 - 1)) == 0, <|$1 is not a power of two|>)|>)

// Usage: m4_once(FILE)
// First line of every other library file: refuses the second inclusion.  (Included before
// this file, a library defines nothing, and finish.awk refuses the first use of it.)
define(<|m4_once|>,
  <|ifdef(<|BW_INCLUDED_$1|>, <|m4_error(<|$1 is included twice|>)|>)define(<|BW_INCLUDED_$1|>)|>)

// Usage: m4_begin(KIND, NAME) ... m4_end(KIND)
// Pairs that must nest.  m4_block is the NAME of the innermost open one; whatever is
// open at the end of the input is an error that tells where it was opened.
define(<|m4_begin|>,
  <|pushdef(<|BW_OPEN|>, <|$1|>)pushdef(<|m4_block|>, <|$2|>)dnl
pushdef(<|BW_OPENED|>, __file__:__line__)|>)
define(<|m4_end|>,
  <|ifdef(<|BW_OPEN|>, <||>, <|m4_error(<|$1_end without $1_begin|>)|>)dnl
ifelse(defn(<|BW_OPEN|>), <|$1|>, <||>,
  <|m4_error(<|$1_end closes |>defn(<|BW_OPEN|>)<|_begin of |>defn(<|BW_OPENED|>))|>)dnl
popdef(<|BW_OPEN|>)popdef(<|m4_block|>)popdef(<|BW_OPENED|>)|>)
m4wrap(<|ifdef(<|BW_OPEN|>,
  <|errprint(defn(<|BW_OPENED|>): error: defn(<|BW_OPEN|>)_begin is never closed
)m4exit(1)|>)|>)

// ---- arithmetic and loops ---------------------------------------------------------

// Usage: constant(NAME, EXPRESSION)
// A named integer; m4 integers have 32 bits and a sign.
define(<|constant|>,
  <|ifelse(<|$#|>, 2, <||>, <|m4_error(<|constant $1: 2 arguments wanted, got $#|>)|>)dnl
ifdef(<|$1|>, <|m4_error(<|constant $1 is defined twice|>)|>)define(<|$1|>, eval($2))|>)

// Usage: constant_text(NAME, TEXT)
// A named piece of text: a key, a float written as its bits.
define(<|constant_text|>,
  <|ifdef(<|$1|>, <|m4_error(<|constant $1 is defined twice|>)|>)define(<|$1|>, <|$2|>)|>)

// m4_ceil_div(A, B)     A / B rounded up
// m4_min(A, B), m4_max(A, B)
// m4_power_of_2(A)      the least power of two that is at least A, A >= 1
// m4_log2(A)            of a power of two
// m4_hex(A)             0x and eight digits
define(<|m4_ceil_div|>, <|eval((($1) + ($2) - 1) / ($2))|>)
define(<|m4_min|>, <|eval((($1) < ($2)) * ($1) + (($1) >= ($2)) * ($2))|>)
define(<|m4_max|>, <|eval((($1) > ($2)) * ($1) + (($1) <= ($2)) * ($2))|>)
define(<|m4_power_of_2|>,
  <|ifelse(eval(($1) > 1), 1, <|eval(2 * m4_power_of_2((($1) + 1) / 2))|>, 1)|>)
define(<|m4_log2|>, <|ifelse(eval(($1) > 1), 1, <|incr(m4_log2(($1) / 2))|>, 0)|>)
define(<|m4_hex|>, <|0x<||>eval($1, 16, 8)|>)

// Usage: m4_if(CONDITION, THEN[, CONDITION, THEN]...[, ELSE])
// On integers.
define(<|m4_if|>,
  <|m4_assert($# >= 2, <|m4_if: $# arguments, at least 2 wanted|>)dnl
ifelse(eval($1), 0, <|ifelse(eval($# > 3), 1, <|m4_if(shift(shift($@)))|>, <|$3|>)|>, <|$2|>)|>)

// Usage: m4_for(NAME, FROM, TO, BODY)
// BODY with NAME = FROM, FROM + 1, .. TO; nothing when FROM > TO.  BODY starts on a line
// of its own (that line break is dropped).
define(<|m4_for|>,
  <|ifelse(<|$#|>, 4, <||>, <|m4_error(<|m4_for: 4 arguments wanted, got $#|>)|>)dnl
m4_for_next(<|$1|>, eval($2), eval($3), <|$4|>)|>)
define(<|m4_for_next|>,
  <|ifelse(eval($2 <= $3), 1, <|pushdef(<|$1|>, $2)dnl$4<||>popdef(<|$1|>)dnl
m4_for_next(<|$1|>, incr($2), $3, <|$4|>)|>)|>)

// Usage: m4_list(NAME, FROM, TO, TEXT)
// TEXT for each value, with commas between: the inside of a vector operand.
define(<|m4_list|>, <|pushdef(<|$1|>, eval($2))$4<||>popdef(<|$1|>)dnl
ifelse(eval($2 < $3), 1, <|, m4_list(<|$1|>, incr(eval($2)), $3, <|$4|>)|>)|>)

// ---- text -------------------------------------------------------------------------

// Usage: remark(TEXT)
// A comment line whose TEXT is expanded.
define(<|remark|>, <|// $1|>)

// Usage: fact(NAME, VALUE)
// One line of what the bundle index says about the kernel.
macro(<|fact|>, 2, <|
// @barewarp $1 $2|>)

// Usage: shared_field(NAME, BYTES, ALIGNMENT, TEXT)
// Places a field in the dynamic shared memory of the CTA: NAME becomes its byte offset,
// SHARED_BYTES grows, and the line of the map is emitted.
macro(<|shared_field|>, 4, <|
m4_shared_field(<|$1|>, eval($2), eval($3), <|$4|>)|>)
define(<|m4_shared_field|>,
  <|m4_assert(($3 & ($3 - 1)) == 0, <|shared_field $1: alignment $3|>)dnl
constant(<|$1|>, (SHARED_BYTES + $3 - 1) / $3 * $3)dnl
define(<|SHARED_BYTES|>, eval($1 + $2))dnl
format(<|//   %6d  %6d  %-15s %s|>, $1, $2, <|$1|>, <|$4|>)|>)
define(<|SHARED_BYTES|>, 0)

// ---- structure --------------------------------------------------------------------

// Usage: only_begin(LABEL, PREDICATE) ... only_end
// Runs the block in the threads whose PREDICATE holds: one thread, or some lanes.  Its end
// orders memory: what the block wrote all lanes may read.  All threads of the warp must come to
// the block.
macro(<|only_begin|>, 2, <|
m4_begin(<|only|>, <|$1|>)dnl
@!$2 bra $1;|>)
macro(<|only_end|>, 0, <|
m4_block:
bar.warp.sync 0xffffffff;m4_end(<|only|>)|>)

// Usage: only_begin(LABEL, PREDICATE) ... only_end_apart
// The same where no lane needs what the block did to memory: it orders nothing, and the lanes
// may stay apart.  An instruction with .sync, barrier and barrier.cluster wait for the lanes of
// their warp by themselves (PTX ISA, of each of these), but only the barriers order memory, too.
// .aligned just asks that all lanes come to the same instruction; ptxas 13.0 makes them meet
// here, or puts a WARPSYNC in front of it.
macro(<|only_end_apart|>, 0, <|
m4_block:m4_end(<|only|>)|>)

// Usage: warps_begin(LABEL, PREDICATE) ... warps_end
// The same with a PREDICATE that is equal in all threads of a warp: it needs no
// reconvergence.
macro(<|warps_begin|>, 2, <|
m4_begin(<|warps|>, <|$1|>)dnl
@!$2 bra.uni $1;|>)
macro(<|warps_end|>, 0, <|
m4_block:m4_end(<|warps|>)|>)

divert(0)dnl
