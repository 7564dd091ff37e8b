/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks, mailboxes and plans for the benchmarks of up_proj and lamport_copy.
 *
 * Where there are as many devices as ranks (mode peers), every rank has a device and does its
 * part; else one rank on device 0 is measured.  In mode local the other ranks' columns are
 * put into its mailbox before each replay, and a mailbox holds the rows of one step: then a
 * chain has as many mailboxes as steps.
 */
#ifndef BW_CLI_BENCH_MAILBOX_H
#define BW_CLI_BENCH_MAILBOX_H

#include "cli/bench.h"

typedef struct bench_mail_case {
  uint32_t tp_size, latent_dim, hidden;
  uint32_t max_rows;
  bw_mailbox_mode mode; /* local or peers */
  uint32_t mailbox_flags;
  uint32_t steps; /* of a chain, each with weights of its own; 0: as bench_launches says */
  bool producers; /* up_proj has its part */
  bool consumers; /* lamport_copy has its part */
} bench_mail_case;

typedef struct bench_mail_rank {
  CUdeviceptr latent, shared, out, image;
  CUdeviceptr *weight;    /* [layers] */
  bw_up_proj_plan **plan; /* [plans] */
  bw_mailbox **mailbox;   /* [boxes] */
} bench_mail_rank;

typedef struct bench_mail {
  bench_mail_case c;
  uint32_t rows;  /* of the row under way */
  uint32_t ranks; /* measured: tp_size, or 1 */
  uint32_t shard, shared_stride;
  uint32_t launches, layers, plans, boxes;
  size_t ring_bytes;
  bench_mail_rank rank[BW_MAILBOX_MAX_RANKS];
  /* Of ranks that are not measured, but whose rings take what rank 0 stores. */
  bw_mailbox *other[BW_MAILBOX_MAX_RANKS];
  CUdeviceptr ring[BW_MAILBOX_MAX_RANKS];
} bench_mail;

bool bench_mail_open(bench *b, bench_mail *m, const bench_mail_case *c);
void bench_mail_close(bench *b, bench_mail *m);

/* For bench_chain. */
bool bench_mail_produce(bench *b, bench_mail *m, uint32_t r, uint32_t number,
                        const struct bench_way *way, CUstream stream);
bool bench_mail_consume(bench *b, bench_mail *m, uint32_t r, uint32_t number,
                        const struct bench_way *way, CUstream stream);
/* What a step's kernels must read and write. */
double bench_mail_bytes(const bench_mail_case *c, uint32_t rows);
/* Fills every ring of rank r with what the other ranks would have stored; nothing where they
 * do store. */
bool bench_mail_refill(bench *b, bench_mail *m, uint32_t r, CUstream stream);

#endif
