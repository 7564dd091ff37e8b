/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the cases of a record; see record.h.  Nothing is compared here.
 */
#include "harness/record.h"

#include "hash.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_MEMORY = 8 };

struct run {
  struct bwt_ranks *ranks;
  struct bwt_record *record;
  struct bwt_text *why;
  CUdeviceptr memory[MOST_MEMORY];
  size_t allocated;
};

static bool driver_ok(const struct run *run, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  bwt_say(run->why, "%s: %s\n", what, bwt_driver_error(&run->ranks->session.driver, result));
  bwt_session_report(&run->ranks->session, run->why);
  return false;
}
#define DRIVER(call) driver_ok(run, run->ranks->session.driver.call, #call)

static bool library_ok(const struct run *run, bw_status status) {
  if (status != BW_OK)
    bwt_say(run->why, "%s\n", bw_last_error());
  return status == BW_OK;
}

/* Memory of the device with these data, or poisoned. */
static bool memory(struct run *run, CUdeviceptr *address, const void *data, size_t size) {
  uint8_t *poison = NULL;
  if (data == NULL) {
    poison = malloc(size);
    if (poison == NULL)
      return driver_ok(run, CUDA_ERROR_OUT_OF_MEMORY, "memory");
    memset(poison, 0xa5, size);
  }
  CUdeviceptr *slot = &run->memory[run->allocated];
  bool ok = DRIVER(MemAlloc(slot, size));
  run->allocated += ok;
  ok = ok && DRIVER(MemcpyHtoD(*slot, data != NULL ? data : poison, size));
  *address = *slot;
  free(poison);
  return ok;
}

static bool finish(struct run *run) {
  return DRIVER(CtxSynchronize());
}

/* ---- wo_a ----------------------------------------------------------------------------------- */

static bool run_wo_a(struct run *run, const struct bwt_wo_a_inputs *in) {
  struct bwt_record *r = run->record;
  const bw_wo_a_shape shape = {r->groups, r->heads, r->rank, r->tokens};
  size_t q_size = 0, qs_size = 0;
  CUdeviceptr m[7] = {0};
  if (!library_ok(run, bw_wo_a_output_sizes(&shape, r->tokens, &q_size, &qs_size)))
    return false;
  r->size = q_size + qs_size;
  r->bits = malloc(r->size);
  if (r->bits == NULL || !memory(run, &m[0], in->x, in->x_size) ||
      !memory(run, &m[1], in->positions, in->positions_size) ||
      !memory(run, &m[2], in->rope, in->rope_size) ||
      !memory(run, &m[3], in->weight, in->weight_size) ||
      !memory(run, &m[4], in->weight_scale, in->weight_scale_size) ||
      !memory(run, &m[5], NULL, q_size) || !memory(run, &m[6], NULL, qs_size))
    return false;
  const bw_wo_a_config config = {.shape = shape, .weight = m[3], .weight_scale = m[4]};
  const bw_wo_a_args args = {.x = m[0],
                             .x_token_stride = in->ref.token_stride,
                             .positions = m[1],
                             .rope = m[2],
                             .q = m[5],
                             .qs = m[6],
                             .tokens = r->tokens};
  bw_wo_a_plan *plan = NULL;
  bool ok = library_ok(run, bw_wo_a_plan_create(run->ranks->session.device, &config, &plan)) &&
            library_ok(run, bw_wo_a_launch(plan, &args, NULL)) && finish(run) &&
            DRIVER(MemcpyDtoH(r->bits, m[5], q_size)) &&
            DRIVER(MemcpyDtoH(r->bits + q_size, m[6], qs_size));
  bw_wo_a_plan_destroy(plan);
  return ok;
}

/* ---- up_proj ------------------------------------------------------------------- */

/* This rank's columns of the first generation. */
static bool read_columns(struct run *run, bw_mailbox *mailbox, uint32_t shard) {
  struct bwt_record *r = run->record;
  bw_mailbox_info info;
  uint8_t *rows = malloc((size_t)r->rows * r->hidden * 2);
  bool ok = rows != NULL && library_ok(run, bw_mailbox_query(mailbox, &info)) &&
            DRIVER(MemcpyDtoH(rows, info.ring, (size_t)r->rows * r->hidden * 2));
  for (uint32_t m = 0; ok && m < r->rows; m++)
    memcpy(r->bits + (size_t)m * shard * 2, rows + (size_t)m * r->hidden * 2, (size_t)shard * 2);
  free(rows);
  return ok;
}

static bool run_up_proj(struct run *run, const struct bwt_up_proj_inputs *in) {
  struct bwt_record *r = run->record;
  const uint32_t shard = r->hidden / r->tp_size;
  const bw_mailbox_config mail = {
      .hidden = r->hidden, .capacity = r->rows, .tp_size = r->tp_size, .mode = BW_MAILBOX_LOCAL};
  CUdeviceptr latent = 0, weight = 0, shared = 0;
  bw_mailbox *mailbox = NULL;
  bw_up_proj_plan *plan = NULL;
  r->size = (size_t)r->rows * shard * 2;
  r->bits = malloc(r->size);
  bool ok = r->bits != NULL && memory(run, &latent, in->latent, in->latent_size) &&
            memory(run, &weight, in->weight, in->weight_size) &&
            memory(run, &shared, in->shared, in->shared_size) &&
            library_ok(run, bw_mailbox_create(run->ranks->session.device, &mail, &mailbox)) &&
            bwt_rounds(&mailbox, 1, run->why);
  const bw_up_proj_config config = {.shape = {r->latent, r->hidden, r->tp_size, 0, r->rows},
                                    .weight = weight,
                                    .mailbox = mailbox};
  const bw_up_proj_args args = {.latent = latent,
                                .shared = shared,
                                .shared_row_stride = in->ref.shared_stride,
                                .rows = r->rows};
  ok = ok && library_ok(run, bw_up_proj_plan_create(run->ranks->session.device, &config, &plan)) &&
       library_ok(run, bw_up_proj_launch(plan, &args, NULL)) && finish(run) &&
       read_columns(run, mailbox, shard);
  bw_up_proj_plan_destroy(plan);
  bw_mailbox_destroy(mailbox);
  return ok;
}

/* ---- either -------------------------------------------------------------------- */

static bool run_case(struct run *run) {
  struct bwt_record *r = run->record;
  bool ok;
  if (r->wo_a) {
    struct bwt_wo_a_inputs in;
    ok = bwt_wo_a_inputs_make(&in, (enum bwt_wo_a_kind)r->kind, r->tokens, r->groups, r->heads,
                              r->rank, 0, r->seed) &&
         run_wo_a(run, &in);
    bwt_wo_a_inputs_free(&in);
    return ok;
  }
  struct bwt_up_proj_inputs in;
  const uint32_t shard = r->hidden / r->tp_size;
  ok = bwt_up_proj_inputs_make(&in, (enum bwt_up_proj_kind)r->kind, r->rows, r->latent, shard,
                               (shard + 15) / 16 * 16, r->seed) &&
       run_up_proj(run, &in);
  bwt_up_proj_inputs_free(&in);
  return ok;
}

bool bwt_record_run(struct bwt_ranks *ranks, struct bwt_record *record, struct bwt_text *why) {
  struct run run = {.ranks = ranks, .record = record, .why = why};
  record->bits = NULL;
  const bool ok = bwt_ranks_enter(ranks, 0, why) && run_case(&run);
  for (size_t i = 0; i < run.allocated; i++)
    (void)ranks->session.driver.MemFree(run.memory[i]);
  if (ok)
    record->hash = bwi_hash64(record->bits, record->size);
  return ok;
}
