divert(-1)
m4_once(<|cluster.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// Clusters: the start barrier, and sending registers into the shared memory of a peer.

// Usage: cluster_arrive_relaxed
// All threads, once; orders nothing.  Pairs with cluster_wait.
macro(<|cluster_arrive_relaxed|>, 0, <|
barrier.cluster.arrive.relaxed.aligned;|>)

// Usage: cluster_arrive
// The same, release: what the threads did before is visible after the wait.
macro(<|cluster_arrive|>, 0, <|
barrier.cluster.arrive.release.aligned;|>)

// Usage: cluster_wait
// All threads, once: every thread of the cluster has arrived or exited; acquire.
macro(<|cluster_wait|>, 0, <|
barrier.cluster.wait.acquire.aligned;|>)

// Usage: peer_address(REGISTER, ADDRESS, RANK)
// out: REGISTER = shared::cluster address, in the CTA of that rank, of our ADDRESS
macro(<|peer_address|>, 3, <|
mapa.shared::cluster.u32 $1, $2, $3;|>)

// Usage: send_words(REGISTER, OFFSET, MBARRIER, WORDS...)
// Sends 1 to 4 words with st.async to consecutive shared::cluster addresses from REGISTER +
// OFFSET, aligned to 8 bytes for 2 words, to 16 for 3 and 4; MBARRIER, in the same CTA, is
// credited 4 bytes a word.  Not for clusters of one CTA, where st.async is undefined.
define(<|send_words|>,
  <|m4_assert($# >= 4 && $# <= 7, <|send_words: $# arguments, 4 to 7 wanted|>)dnl
ifelse(<|$#|>, 4, <|m4_send($1, $2, $3, <|.b32|>, $4)|>,
  <|$#|>, 5, <|m4_send($1, $2, $3, <|.v2.b32|>, <|{$4, $5}|>)|>,
  <|$#|>, 6, <|m4_send($1, $2, $3, <|.v2.b32|>, <|{$4, $5}|>)
m4_send($1, eval($2 + 8), $3, <|.b32|>, $6)|>,
  <|m4_send($1, $2, $3, <|.v4.b32|>, <|{$4, $5, $6, $7}|>)|>)|>)
macro(<|m4_send|>, 5, <|
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes$4 [$1+$2], $5, [$3];|>)

divert(0)dnl
