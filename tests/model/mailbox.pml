/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox protocol of up_proj and lamport_copy, for the model checker spin.
 *
 * One step of one rank is two grids of one stream: P(step) stores this rank's word of
 * every row to every rank's mailbox; C(step) polls its own mailbox until the rows are
 * whole, copies them out, re-arms the words and advances the generation counter.  Grids
 * overlap as programmatic dependent launch allows: one may start when every CTA of the
 * grid before it has triggered, and only griddepcontrol.wait holds it until that grid is
 * complete.
 *
 * What is abstracted: the columns of a row that come from one source rank are one word
 * (rows and ranks give enough words to arrive in any order); a word holds 0 when empty,
 * else the number of the step that wrote it, plus one.  Stores are performed one word at
 * a time, in any order, at any time before their grid completes: that is the hardware
 * assumption the protocol names.
 *
 * Two reductions, unless EVERY_WORD is set, which lose no violation.  Both let stores that
 * nobody can tell apart in time be performed at the time of the first, which is a run of the
 * unreduced model, too:
 *   - Words of one source that the same CTA of a reader takes go together.  That CTA acts
 *     only when all of them are there, and empties them in one event; nobody else reads
 *     them.  So in a run where they come apart, moving the later ones to the time of the
 *     first enables nothing that has to happen and disables nothing, and the assertion at
 *     the first is that of the run.
 *   - A rank's words for itself are performed when its grid has passed its wait.  Their
 *     reader acts only when that grid is complete, which is after any time they could have.
 *
 * Proven for every interleaving: no word is overwritten unread (assert in perform), each
 * reader takes this step's words (assert in copy_out: none lost, none read twice), every
 * reader ends (no invalid end state), and in the end every word is empty (Judge).
 *
 * Set on the command line (tests/suites/test_model.c does so):
 *   N ranks (2 to 4), S steps, G generations, CTAS of the reader (1 or 2), MPAT bit i =
 *   rows of step i minus one, REPLAY k: a graph of k steps launched again and again (no
 *   overlap across its ends), TRIGGER_AT_ENTRY: the producer triggers before its wait and
 *   the reader waits before it reads counter or mailbox (else: the producer triggers after
 *   its wait and the reader may poll before its own), EVERY_WORD: no reductions,
 *   FAULT_...: one deliberate mistake, for which spin must find a counterexample.
 */
#ifndef N
#define N 3
#endif
#ifndef S
#define S 5
#endif
#ifndef G
#define G 2
#endif
#ifndef CTAS
#define CTAS 1 /* CTA c takes rows c, c + CTAS, ... */
#endif
#ifndef MPAT
#define MPAT 2 /* rows 1 2 1 1 1 */
#endif
#ifndef REPLAY
#define REPLAY 3
#endif
#define R 2 /* rows at most */

#define M(i) (1 + ((MPAT >> (i)) & 1))
#define AT(r, i) ((r) * S + (i))
#define BOX(dst, gen, row, src) box[(((dst) * G + (gen)) * R + (row)) * N + (src)]

byte box[N * G * R * N];
byte counter[N];   /* steps completed, kept in device memory */
byte ticket[N];    /* CTAs of the running reader that are through */
bool ptrig[N * S]; /* P(step) has triggered */
byte ctrig[N * S]; /* CTAs of C(step) that have triggered */
bool pdone[N * S], cdone[N * S];
byte finished;

/* May P(i), C(i) be placed?  Overlap ends where a graph ends. */
#define P_PLACED(r, i) \
  ((i) == 0 || cdone[AT(r, (i) - 1)] || ((i) % REPLAY != 0 && ctrig[AT(r, (i) - 1)] == CTAS))
#ifdef TRIGGER_AT_ENTRY
#ifdef FAULT_NO_WAIT_READER
#define C_PLACED(r, i) P_PLACED(r, i)
#else
#define C_PLACED(r, i) pdone[AT(r, i)]
#endif
#else
#define C_PLACED(r, i) (pdone[AT(r, i)] || ptrig[AT(r, i)])
#endif

/* griddepcontrol.wait: the grid before this one is complete. */
#ifdef FAULT_NO_WAIT_PRODUCER
#define P_WAITED(r, i) P_PLACED(r, i)
#else
#define P_WAITED(r, i) ((i) == 0 || cdone[AT(r, (i) - 1)])
#endif
#ifdef FAULT_NO_WAIT_READER
#define C_WAITED(r, i) true
#else
#define C_WAITED(r, i) pdone[AT(r, i)]
#endif

/* Every word of row m is there, or the row is not part of step i. */
#define THERE(r, gen, m, src) (src >= N || BOX(r, gen, m, src) != 0)
#define ROW_WHOLE(r, i, gen, m)                                                            \
  ((m) >= M(i) || (THERE(r, gen, m, 0) && THERE(r, gen, m, 1) && THERE(r, gen, m, 2) &&    \
                   THERE(r, gen, m, 3)))
#if CTAS == 1
#define SHARE_WHOLE(r, i, gen, c) (ROW_WHOLE(r, i, gen, 0) && ROW_WHOLE(r, i, gen, 1))
#else
#define SHARE_WHOLE(r, i, gen, c) ROW_WHOLE(r, i, gen, c)
#endif

/* What is performed at a time: the rows that a CTA of the reader takes, or one row. */
#ifdef EVERY_WORD
#define LOTS R
#else
#define LOTS CTAS
#endif

/* Lot k of this grid (destination k % N; rows k / N, k / N + LOTS, ...) arrives. */
inline store(k) {
  row = (k) / N;
  do
  :: row < M(i) ->
    assert(BOX((k) % N, gen, row, r) == 0);
#ifdef FAULT_NO_NEGATIVE_ZERO_RULE
    /* Step 1 of rank 0 computes -0, and so the word looks empty. */
    if
    :: r == 0 && i == 1
    :: else -> BOX((k) % N, gen, row, r) = i + 1
    fi;
#else
    BOX((k) % N, gen, row, r) = i + 1;
#endif
    row = row + LOTS
  :: else -> break
  od;
  row = 0;
  todo = todo & ~(1 << (k))
}

inline perform(k) {
  atomic {
    (todo & (1 << (k))) ->
    store(k);
    if
    :: todo == 0 -> pdone[AT(r, i)] = true /* all performed: the grid is complete */
    :: else
    fi
  }
}

/* The producer's grids of one parity: two such processes, so that neighbours overlap.
 * It does nothing that anyone sees before its wait, so being placed and waiting are one
 * event. */
proctype P(byte r; byte i) {
  byte gen, todo, row;
again:
  atomic {
    P_WAITED(r, i) ->
    gen = counter[r] % G;
    ptrig[AT(r, i)] = true; /* after the wait, so an early C(i) sees this counter too */
    todo = (1 << (N * (M(i) < LOTS -> M(i) : LOTS))) - 1;
#ifndef EVERY_WORD
    store(r);
#if CTAS == 2
    if
    :: M(i) > 1 -> store(N + r)
    :: else
    fi
#endif
#endif
  }
  do
  :: perform(0)
  :: perform(1)
#if N > 2 || LOTS > 1
  :: perform(2)
  :: perform(3)
#endif
#if N > 2 && LOTS > 1
  :: perform(4)
  :: perform(5)
#endif
#if N > 3 && LOTS > 1
  :: perform(6)
  :: perform(7)
#endif
  :: todo == 0 -> break
  od;
  atomic {
    i = i + 2;
    gen = 0;
    if
    :: i < S -> goto again
    :: else
    fi
  }
}

/* Empties this CTA's words of the step. */
inline rearm(which) {
  m = c;
  do
  :: m < M(i) ->
    k = 0;
    do
    :: k < N -> BOX(r, (which), m, k) = 0; k++
    :: else -> break
    od;
    m = m + CTAS
  :: else -> break
  od
}

inline copy_out() {
  m = c;
  do
  :: m < M(i) ->
    k = 0;
    do
    :: k < N -> assert(BOX(r, gen, m, k) == i + 1); k++
    :: else -> break
    od;
    m = m + CTAS
  :: else -> break
  od
}

/* One CTA of the reader, step after step. */
proctype C(byte r; byte c) {
  byte gen, i, m, k;
again:
  atomic {
    C_PLACED(r, i) ->
    ctrig[AT(r, i)]++;      /* at entry */
    gen = counter[r] % G    /* before its wait */
  }
  /* Poll, wait, copy, re-arm are one event: words never become empty again before this
   * CTA empties them, and nobody can tell its re-arms from its completion. */
  atomic {
    C_WAITED(r, i) && SHARE_WHOLE(r, i, gen, c) ->
#if defined(FAULT_REARM_BEFORE_COPY)
    rearm(gen);
    copy_out();
#elif defined(FAULT_REARM_WRONG_GENERATION)
    copy_out();
    rearm((gen + 1) % G);
#else
    copy_out();
    rearm(gen);
#endif
    ticket[r]++;
#ifdef FAULT_COUNTER_BY_FIRST_CTA
    if
    :: ticket[r] == 1 -> counter[r]++
    :: else
    fi;
#endif
    if
    :: ticket[r] == CTAS ->
      ticket[r] = 0;
#ifndef FAULT_COUNTER_BY_FIRST_CTA
      counter[r]++;
#endif
      cdone[AT(r, i)] = true;
      finished++
    :: else
    fi;
    i++;
    gen = 0;
    m = 0;
    k = 0;
    if
    :: i < S -> goto again
    :: else
    fi
  }
}

proctype Judge() {
  byte k;
  finished == N * S;
  d_step {
    k = 0;
    do
    :: k < N * G * R * N -> assert(box[k] == 0); k++
    :: else -> break
    od
  }
}

init {
  byte r;
  atomic {
    run Judge();
    r = 0;
    do
    :: r < N ->
      run P(r, 0);
      run P(r, 1);
      run C(r, 0);
#if CTAS == 2
      run C(r, 1);
#endif
      r++
    :: else -> break
    od
  }
}
