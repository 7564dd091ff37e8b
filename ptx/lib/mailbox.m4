divert(-1)
m4_once(<|mailbox.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// The mailbox between ranks: what producer and reader both know.  Memory of one rank:
//
//   bf16     ring[GENERATIONS][capacity][hidden]   polled as 32-bit words
//   uint32_t steps      steps completed; the next one uses generation steps % GENERATIONS
//   uint32_t tickets    CTAs of the running reader that are through
//
// The protocol and the argument for it are in ptx/lamport_copy/README.md.

constant(<|GENERATIONS|>, 2)
m4_assert_power_of_2(<|GENERATIONS|>)

// A word that nobody wrote: bf16 +0 below bf16 -0.  No producer stores a bf16 -0.
constant_text(<|EMPTY_WORD|>, 0x80000000)

// Usage: generation_start(ADDRESS, RING, STEPS, GENERATION_BYTES)
// in: RING (64-bit address), STEPS (u32), GENERATION_BYTES (u32).
// out: ADDRESS (64 bits) = start of the ring of the generation that step number STEPS uses
macro(<|generation_start|>, 4, <|
{
  .reg .b32 generation;
  and.b32 generation, $3, eval(GENERATIONS - 1);  // steps % GENERATIONS
  mad.wide.u32 $1, generation, $4, $2;
}|>)

divert(0)dnl
