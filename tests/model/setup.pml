/* SPDX-License-Identifier: Apache-2.0
 *
 * The rounds that set up a mailbox (loader/mailbox_rounds.c), for the model checker spin:
 * N ranks, each step of which may go well, fail, or end with the rank's death.
 *
 * A rank alternates between a gather, in which it gives its blob of the round and gets
 * those of all, and a round: the verdict on the blobs, then the next step of its own.
 *
 * What is abstracted: of a blob its status, the state of multicast, whether the rank's
 * environment bars it, and of whom it wants letters (descriptors over a socket).  The
 * engine's gather gives the same blobs to all ranks that live; the blob of a rank that died
 * before it gave it is missing to all.  Of driver calls that can block there is one:
 * binding memory to the multicast object, which waits until every device was added.
 * Between its gather and its blob a rank does what no other can see before that blob (but
 * for what binding and letters show, which they only look for after it), so a round is one
 * event, unless it blocks.
 *
 * Proven for every interleaving and every failure: nobody blocks for ever, in a gather,
 * in binding, or for a letter (no invalid end state); what is waited for as a letter has
 * been sent (assert); a failure of one rank is the error of all in the round after it, and
 * all that live end in the same round with the same verdict and mode; the multicast object
 * is held by nobody in the end, unless it is bound on all (Judge).
 *
 * Set on the command line (tests/suites/test_model.c does so): N ranks; MODE: AUTO,
 * DEMANDED (multicast) or PEERS; FAULT_...: one deliberate mistake, for which spin must find
 * a counterexample.
 */
#ifndef N
#define N 3
#endif
#define AUTO 0
#define DEMANDED 1
#define PEERS 2
#ifndef MODE
#define MODE AUTO
#endif

#define LAST 7 /* the round that ends in success */

/* Blobs.  A rank is at most one round ahead of another, for it needs that one's blob: two
 * of each are kept, by the round's parity. */
#define AT(round, rank) (((round) % 2) * N + (rank))
byte given[N];      /* rounds of which it has given its blob */
bool bad[2 * N];    /* status: the step failed */
byte state[2 * N];  /* of multicast */
bool barred[N];     /* of round 0 */
byte wants[N];      /* of round 2: bit for each rank whose letter is wanted */
#define NONE 0
#define CREATED 1
#define ADDED 2
#define BOUND 3
#define FAILED 4

bool dead[N];
bool added[N];       /* the device, to the multicast object */
bool holds[N];       /* a handle of the object */
bool sent[N * N];    /* a letter, by sender and receiver */

/* How it ended. */
byte verdict[N], ended_in[N];
#define READY_MULTICAST 1
#define READY_PEERS 2
#define ERROR 3
byte ended;

#if N == 2
#define EACH(what) (what(0) && what(1))
#else
#define EACH(what) (what(0) && what(1) && what(2))
#endif
#define GIVEN(r) (given[r] >= round || dead[r])
#define THERE(r) (given[r] >= round)
#define GOOD(r) (!bad[AT(round - 1, r)])
#define ALLOWS(r) (!barred[r])
#define IS_ADDED(r) (state[AT(round - 1, r)] == ADDED)
#define IS_BOUND(r) (state[AT(round - 1, r)] == BOUND)
#define HAS_NOT_FAILED(r) (state[AT(round - 1, r)] != FAILED)
#define DEVICE_ADDED(r) (added[r])

/* A step of multicast fails: this rank is out of it, and says so. */
inline give_up() {
  now = FAILED;
  holds[me] = false
}

inline bind() {
  EACH(DEVICE_ADDED); /* here the driver's call waits */
  if
  :: now = BOUND
  :: give_up()
  fi
}

/* Sends what was asked of this rank. */
inline send() {
  k = 0;
  do
  :: k < N ->
    if
    :: wants[k] & (1 << me) -> sent[k * N + me] = true
    :: else
    fi;
    k++
  :: else -> break
  od;
  k = 0
}

/* What this rank asked for is there already: waiting for it ends. */
inline receive() {
  k = 0;
  do
  :: k < N ->
    assert(!(wants[me] & (1 << k)) || sent[me * N + k]);
    sent[me * N + k] = false;
    k++
  :: else -> break
  od;
  k = 0
}

/* The verdict on the blobs of the round before: the same on all ranks. */
inline judge() {
  if
  :: round == 0
  :: round > 0 && !(EACH(THERE) && EACH(GOOD)) -> verdict[me] = ERROR
  :: round > 0 && EACH(THERE) && EACH(GOOD) ->
    if
    :: round == 1 -> want = MODE != PEERS && EACH(ALLOWS)
    :: round == 2 -> want = want && state[AT(1, 0)] == CREATED && EACH(HAS_NOT_FAILED)
    :: round == 5 -> want = want && EACH(IS_ADDED)
#ifdef FAULT_OWN_MODE
    :: round == 6 -> want = now == BOUND
#else
    :: round == 6 -> want = want && EACH(IS_BOUND)
#endif
    :: else
    fi;
    if
    :: MODE == DEMANDED && !want -> verdict[me] = ERROR
    :: round == LAST && !(MODE == DEMANDED && !want) ->
      verdict[me] = (want -> READY_MULTICAST : READY_PEERS)
    :: else
    fi
  fi
}

inline step() {
  if
  :: round == 0 ->
    if
    :: barred[me] = true
    :: true
    fi
  :: round == 1 && want ->
    if
    :: me == 0 -> now = CREATED; holds[me] = true
    :: give_up() /* it cannot be made, or does not fit */
    :: me != 0
    fi
  :: round == 2 -> /* pidfd_getfd refuses for some */
    k = 0;
    do
    :: k < N && k != me -> wants[me] = wants[me] | (1 << k); k++
    :: k < N -> k++
    :: k == N -> break
    od;
    k = 0
  :: round == 3 ->
    send();
#ifdef FAULT_RECEIVES_WHILE_OTHERS_SEND
    receive()
#endif
  :: round == 4 ->
#ifndef FAULT_RECEIVES_WHILE_OTHERS_SEND
    receive();
#endif
    wants[me] = 0;
    if
    :: want -> now = ADDED; holds[me] = true; added[me] = true
    :: want -> give_up()
    :: !want
    fi;
#ifdef FAULT_BINDS_AT_ONCE
    if
    :: now == ADDED -> bind(); now = (now == BOUND -> ADDED : now)
    :: else
    fi
#endif
  :: round == 5 && want -> bind()
  :: else /* in round 6 the others' memory is mapped, unless all are bound */
  fi
}

proctype Rank(byte me) {
  byte round, now, k;
  bool want, fails, over;
again:
  atomic {
    round == 0 || EACH(GIVEN);
    judge();
    over = verdict[me] != 0;
#ifndef FAULT_KEEPS_OBJECT
    if
    :: !want || verdict[me] == ERROR -> holds[me] = false
    :: else
    fi;
#endif
    if
    :: !over ->
      step();
      if
      :: fails = true /* whatever else the step has to do */
      :: true
      fi;
      if
      :: dead[me] = true; over = true; holds[me] = false
#ifdef FAULT_STOPS_WHEN_IT_FAILS
      :: fails -> verdict[me] = ERROR; over = true; holds[me] = false
      :: !fails
#else
      :: true
#endif
      fi
    :: else
    fi;
    if
    :: !over ->
      bad[AT(round, me)] = fails;
      state[AT(round, me)] = now;
      fails = false;
      round++;
      given[me] = round;
      goto again
    :: else
    fi;
    ended_in[me] = round;
    ended++
  }
}

proctype Judge() {
  byte k, first;
  ended == N;
  d_step {
    first = N;
    k = 0;
    do
    :: k < N ->
      if
      :: dead[k]
      :: !dead[k] && first == N -> first = k
      :: !dead[k] && first < N ->
        assert(verdict[k] == verdict[first]);
        assert(ended_in[k] == ended_in[first])
      fi;
      assert(dead[k] || verdict[k] != 0);
      assert(MODE != DEMANDED || dead[k] || verdict[k] != READY_PEERS);
      assert(!holds[k] || verdict[k] == READY_MULTICAST);
      assert(verdict[k] != READY_MULTICAST || holds[k]);
      k++
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
    :: r < N -> run Rank(r); r++
    :: else -> break
    od
  }
}
